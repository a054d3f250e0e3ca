/* SPDX-License-Identifier: MIT */
/*
 * The probe of a declared event for SystemTap, bpftrace, perf and libbpf: an ELF note with the
 * address of the probe's site, its arguments, and the semaphore that counts tracers.
 *
 * The site is a stub, which the event's function calls only while a tracer is attached. The stub is
 * assembly in a section group: each executable or shared object that uses the event contains one
 * stub, and others contain none. Its directives are inside the event's function, because the
 * compiler drops unused functions, but they emit it into another section. A site inline in the
 * function would exist once per file, with arguments in arbitrary places.
 *
 * Arguments are 64-bit words. The stub receives the first five in registers, and in the sixth
 * register the address of an array of all words. Each argument is therefore always in the same
 * place, which the note names:
 *
 *	word	x86-64				aarch64
 *	0 to 4	rdi rsi rdx rcx r8		x0 to x4
 *	5 to 11	40(%r9) to 88(%r9)		[x5, 40] to [x5, 88]
 *
 * libbpf accepts twelve arguments. If there are more words, the twelfth argument is %r9 or x5
 * itself. The probed instruction is a one-byte nop, because a probe on a five-byte nop overwrites
 * the red zone on Linux 6.18 to 7.2.
 */
#ifndef RINGPIPE_DETAIL_PROBE_H
#define RINGPIPE_DETAIL_PROBE_H

#include <string.h>

#include <ringpipe/detail/map.h>
#include <ringpipe/types.h>

#if defined(__x86_64__)
#define RP_PLACE_0_ "%rdi"
#define RP_PLACE_1_ "%rsi"
#define RP_PLACE_2_ "%rdx"
#define RP_PLACE_3_ "%rcx"
#define RP_PLACE_4_ "%r8"
#define RP_PLACE_5_ "40(%r9)"
#define RP_PLACE_6_ "48(%r9)"
#define RP_PLACE_7_ "56(%r9)"
#define RP_PLACE_8_ "64(%r9)"
#define RP_PLACE_9_ "72(%r9)"
#define RP_PLACE_10_ "80(%r9)"
#define RP_PLACE_11_ "88(%r9)"
#define RP_PLACE_ALL_ "%r9"
#elif defined(__aarch64__)
#define RP_PLACE_0_ "x0"
#define RP_PLACE_1_ "x1"
#define RP_PLACE_2_ "x2"
#define RP_PLACE_3_ "x3"
#define RP_PLACE_4_ "x4"
#define RP_PLACE_5_ "[x5, 40]"
#define RP_PLACE_6_ "[x5, 48]"
#define RP_PLACE_7_ "[x5, 56]"
#define RP_PLACE_8_ "[x5, 64]"
#define RP_PLACE_9_ "[x5, 72]"
#define RP_PLACE_10_ "[x5, 80]"
#define RP_PLACE_11_ "[x5, 88]"
#define RP_PLACE_ALL_ "x5"
#endif

/*
 * Unwind information of the stub, for tools that capture stacks. With clang it is omitted: the stub
 * is in the middle of a function that has its own unwind information, and clang's assembler rejects
 * that although the sections differ.
 */
#if defined(__clang__)
#define RP_CFI_(directive)
#else
#define RP_CFI_(directive) ".cfi_" directive "\n"
#endif

/*
 * The stub and its note. The layout of the note is that of sys/sdt.h, version 3. If the compiler
 * copies the function, a file contains the directives more than once, and only the first copy
 * applies.
 */
#if defined(RP_PLACE_0_)
#define RP_PROBE_STUB_(symbol, semaphore, provider, name, arguments) \
	__asm__ volatile(".ifndef " symbol "\n" \
		".pushsection .text." symbol ",\"axG\",\"progbits\"," symbol ",comdat\n" \
		".weak " symbol "\n" \
		".hidden " symbol "\n" \
		".type " symbol ",\"function\"\n" \
		symbol ":\n" \
		RP_CFI_("startproc") \
		"990: nop\n" \
		"ret\n" \
		RP_CFI_("endproc") \
		".size " symbol ", . - " symbol "\n" \
		".pushsection .note.stapsdt,\"?\",\"note\"\n" \
		".balign 4\n" \
		".4byte 992f - 991f, 994f - 993f, 3\n" \
		"991: .asciz \"stapsdt\"\n" \
		"992: .balign 4\n" \
		"993: .8byte 990b\n" \
		".8byte _.stapsdt.base\n" \
		".8byte " semaphore "\n" \
		".asciz \"" provider "\"\n" \
		".asciz \"" name "\"\n" \
		".asciz \"" arguments "\"\n" \
		"994: .balign 4\n" \
		".popsection\n" \
		".popsection\n" \
		".endif\n" \
		".ifndef _.stapsdt.base\n" \
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
		".weak _.stapsdt.base\n" \
		".hidden _.stapsdt.base\n" \
		"_.stapsdt.base: .space 1\n" \
		".size _.stapsdt.base, 1\n" \
		".popsection\n" \
		".endif\n")
#endif

/* The sizes of a field's words (S: signed). */
#define RP_SIZES_(t) RP_SIZES_I_ t
#define RP_SIZES_I_(kind, ...) RP_SIZES_##kind(__VA_ARGS__)
#define RP_SIZES_SCALAR(T, n) RP_SIZE_##T
#define RP_SIZES_GUID(n) U8
#define RP_SIZES_STRING(n) U8
#define RP_SIZES_STRING_N(n) U8, U8
#define RP_SIZES_STRING16(n) U8
#define RP_SIZES_BLOB(n) U8, U8
#define RP_SIZES_ARRAY(T, n) U8, U8
#define RP_SIZES_STRUCT(tag, n) U8
#define RP_SIZES_STRUCTS(tag, n) U8, U8
#define RP_SIZES_ENUM_(tag, n) RP_SIZE_I32
#define RP_SIZES_SECRET_(t) RP_WITHIN_(RP_SIZES_, RP_BARE_ t)

#define RP_SIZE_BOOL U1
#define RP_SIZE_CHAR U1
#define RP_SIZE_I8 S1
#define RP_SIZE_U8 U1
#define RP_SIZE_I16 S2
#define RP_SIZE_U16 U2
#define RP_SIZE_I32 S4
#define RP_SIZE_U32 U4
#define RP_SIZE_I64 S8
#define RP_SIZE_U64 U8
#define RP_SIZE_F32 U4
#define RP_SIZE_F64 U8
#define RP_SIZE_POINTER U8
#define RP_SIZE_TIME S8

/*
 * The values of a field's words. No tool reads floating point registers, so floating point values
 * are passed as their bits.
 */
#define RP_REGS_(t) RP_REGS_I_ t
#define RP_REGS_I_(kind, ...) RP_REGS_##kind(__VA_ARGS__)
#define RP_REGS_SCALAR(T, n) RP_WORD_##T(n)
#define RP_REGS_GUID(n) RP_WORD_POINTER(n)
#define RP_REGS_STRING(n) RP_WORD_POINTER(n ? n : "")
#define RP_REGS_STRING_N(n) RP_WORD_POINTER(n ? n : ""), n ? n##_bytes : 0
#define RP_REGS_STRING16(n) RP_WORD_POINTER(n ? n : rp_empty16_())
#define RP_REGS_BLOB(n) RP_WORD_POINTER(n), n##_bytes
#define RP_REGS_ARRAY(T, n) RP_WORD_POINTER(n), n##_count
#define RP_REGS_STRUCT(tag, n) RP_WORD_POINTER(n)
#define RP_REGS_STRUCTS(tag, n) RP_WORD_POINTER(n), n##_count
#define RP_REGS_ENUM_(tag, n) RP_WORD_I32(n)
#define RP_REGS_SECRET_(t) RP_WITHIN_(RP_REGS_, RP_BARE_ t)

#define RP_WORD_BOOL(n) n
#define RP_WORD_CHAR(n) rp_bits_(&n, sizeof(n))
#define RP_WORD_I8(n) rp_signed_(n)
#define RP_WORD_U8(n) n
#define RP_WORD_I16(n) rp_signed_(n)
#define RP_WORD_U16(n) n
#define RP_WORD_I32(n) rp_signed_(n)
#define RP_WORD_U32(n) n
#define RP_WORD_I64(n) rp_signed_(n)
#define RP_WORD_U64(n) n
#define RP_WORD_F32(n) rp_bits_(&n, sizeof(n))
#define RP_WORD_F64(n) rp_bits_(&n, sizeof(n))
#define RP_WORD_POINTER(n) rp_address_(n)
#define RP_WORD_TIME(n) rp_signed_(n)

static inline __attribute__((always_inline)) uint64_t rp_bits_(const void *number, size_t size)
{
	uint64_t bits = 0;

	memcpy(&bits, number, size);
	return bits;
}

static inline __attribute__((always_inline)) uint64_t rp_signed_(int64_t number)
{
	return rp_bits_(&number, sizeof(number));
}

static inline __attribute__((always_inline)) uint64_t rp_address_(const void *pointer)
{
	return rp_bits_(&pointer, sizeof(pointer));
}

/* The note's text for up to twelve arguments. END fills the list up to thirteen items. */
#define RP_ARGUMENTS_(...) \
	RP_ARGUMENTS_I_(__VA_ARGS__, END, END, END, END, END, END, END, END, END, END, END, END, \
			END)
#define RP_ARGUMENTS_I_(a, b, c, d, e, f, g, h, i, j, k, l, m, ...) \
	RP_TEXT_##a("", RP_PLACE_0_) RP_TEXT_##b(" ", RP_PLACE_1_) RP_TEXT_##c(" ", RP_PLACE_2_) \
	RP_TEXT_##d(" ", RP_PLACE_3_) RP_TEXT_##e(" ", RP_PLACE_4_) RP_TEXT_##f(" ", RP_PLACE_5_) \
	RP_TEXT_##g(" ", RP_PLACE_6_) RP_TEXT_##h(" ", RP_PLACE_7_) RP_TEXT_##i(" ", RP_PLACE_8_) \
	RP_TEXT_##j(" ", RP_PLACE_9_) RP_TEXT_##k(" ", RP_PLACE_10_) \
	RP_CAT_(RP_TWELFTH_, RP_SECOND_(RP_ENDS_##m, MANY, ~))(l)
#define RP_ENDS_END ~, FEW
#define RP_TWELFTH_FEW(l) RP_TEXT_##l(" ", RP_PLACE_11_)
#define RP_TWELFTH_MANY(l) " 8@" RP_PLACE_ALL_

#define RP_TEXT_U1(separator, place) separator "1@" place
#define RP_TEXT_S1(separator, place) separator "-1@" place
#define RP_TEXT_U2(separator, place) separator "2@" place
#define RP_TEXT_S2(separator, place) separator "-2@" place
#define RP_TEXT_U4(separator, place) separator "4@" place
#define RP_TEXT_S4(separator, place) separator "-4@" place
#define RP_TEXT_U8(separator, place) separator "8@" place
#define RP_TEXT_S8(separator, place) separator "-8@" place
#define RP_TEXT_END(separator, place)

/*
 * The stub, and its call in the event's function. The function calls the stub if the upper 16 bits
 * of the enable word, which are the note's semaphore, count a tracer.
 */
#if defined(RP_PLACE_0_)
#define RP_PROBE_EMIT_(provider, event) \
	RP_BEGIN_DECLS \
	__attribute__((visibility("hidden"))) \
	void provider##_##event##_probe_(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, \
					 const uint64_t *); \
	RP_END_DECLS
#define RP_PROBE_FIRE_(provider, event, arguments, ...) \
	RP_PROBE_STUB_(#provider "_" #event "_probe_", #provider "_" #event "_event_ + 6", \
		       #provider, #event, arguments); \
	if (__builtin_expect(rp_is_traced_(&provider##_##event##_event_.enable), 0)) { \
		const uint64_t words_[] = { __VA_ARGS__, 0, 0, 0, 0 }; \
		provider##_##event##_probe_(words_[0], words_[1], words_[2], words_[3], \
					    words_[4], words_); \
	}
#else
#define RP_PROBE_EMIT_(provider, event)
#define RP_PROBE_FIRE_(provider, event, arguments, ...)
#endif

static inline __attribute__((always_inline)) int rp_is_traced_(const uint64_t *enable)
{
	return __atomic_load_n(enable, __ATOMIC_RELAXED) >> 48 != 0;
}

#endif
