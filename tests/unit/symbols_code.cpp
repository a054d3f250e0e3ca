// SPDX-License-Identifier: MIT
// Functions of every kind that a symbol table describes.
#define FRAME __attribute__((noinline, used))

namespace shop {

class Basket {
public:
	int check_out(int price);
};

FRAME int Basket::check_out(int price)
{
	return price * 3;
}

} // namespace shop

extern "C" {

FRAME int plain_function(int value)
{
	return value + 1;
}

// Two names for one function: users know the one without underscores.
int __internal_other(int value) __attribute__((alias("plain_function")));

static FRAME int local_function(int value)
{
	return value + 2;
}

int calls_all(int value)
{
	return local_function(value);
}

// Written in assembly, without a size; the next symbol has one.
__asm__(".text\n"
	".globl bare_label\n"
	".type bare_label, @function\n"
	"bare_label:\n"
	"	.skip 16, 0x90\n"
	".globl sized_function\n"
	".type sized_function, @function\n"
	"sized_function:\n"
	"	.skip 16, 0x90\n"
	".size sized_function, 16\n"
	"	.skip 16, 0x90\n");

}
