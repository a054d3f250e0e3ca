/* SPDX-License-Identifier: MIT */
/*
 * The data of a declaration, emitted as assembler directives. A source file contains the data only
 * if it uses the declaration, and an executable or shared object contains one copy of them.
 *
 * C has no inline variables. Each inline function of a declaration therefore contains directives
 * that emit its data. If the compiler drops the function, it drops the directives too, so a file
 * that only includes the declaration contains no data. All data of one declaration form one section
 * group, whose signature is the name of its symbol. The linker keeps the first group of that name
 * with all its sections and drops the others. `.ifndef` omits further copies in the same file.
 *
 *	symbol			in section		contents
 *	rp_object_		.data.<symbol>		struct rp_object, with its constructor
 *	<provider>_provider_	.data.<symbol>		struct rp_provider_decl
 *	<p>_<event>_event_	.probes			struct rp_event: tracers look only there
 *				.data.rel.ro.<symbol>	its struct rp_event_decl and fields
 *	<p>_<counter>_counter_	.data.<symbol>		struct rp_counter
 *				.data.rel.ro.<symbol>	its struct rp_counter_decl
 *
 * The sections rp_providers, rp_events and rp_counters are the object's tables. Each table entry is
 * in the same group as the data that it points to. The symbols are weak, for objects that were
 * compiled without groups. They are also hidden, so a call site reads its enable word without a GOT
 * or COPY relocation.
 *
 * The tables of RP_STRUCT and RP_ENUM are static, because two files may have different structs of
 * the same name. A file contains the tables that its events use; with gcc -O0 it contains all of
 * them.
 */
#ifndef RINGPIPE_DETAIL_DATA_H
#define RINGPIPE_DETAIL_DATA_H

#if defined(__clang__) || __GNUC__ < 9
#define RP_DATA_ASM_ __asm__ volatile
#else
#define RP_DATA_ASM_ __asm__ __inline__ volatile	/* gcc assumes minimum size, not lines */
#endif

#define RP_SECTION_(name, type, symbol) \
	".pushsection " name ",\"awG\",\"" type "\"," symbol ",comdat\n" \
	".balign 8\n"

#define RP_SYMBOL_(symbol) \
	".weak " symbol "\n" \
	".hidden " symbol "\n" \
	".type " symbol ",\"object\"\n" \
	symbol ":\n"

#define RP_SYMBOL_END_(symbol) \
	".size " symbol ", . - " symbol "\n" \
	".popsection\n"

#define RP_TABLE_ENTRY_(table, symbol) \
	RP_SECTION_(table, "progbits", symbol) \
	".8byte " symbol "\n" \
	".popsection\n"

/*
 * Constructors without a priority run after this one, because its priority is the last before
 * theirs. Events that a constructor of the program writes are therefore registered.
 */
#define RP_OBJECT_DATA_(constructor, destructor) \
	RP_DATA_ASM_(".ifndef rp_object_\n" \
		RP_SECTION_(".init_array.65534", "init_array", "rp_object_") \
		".8byte %c1\n" \
		".popsection\n" \
		RP_SECTION_(".fini_array.65534", "fini_array", "rp_object_") \
		".8byte %c2\n" \
		".popsection\n" \
		RP_SECTION_(".data.rp_object_", "progbits", "rp_object_") \
		RP_SYMBOL_("rp_object_") \
		".4byte %c0\n" \
		".zero %c0 - 4\n" \
		RP_SYMBOL_END_("rp_object_") \
		".endif" \
		: : "i"(sizeof(struct rp_object)), "i"(&constructor), "i"(&destructor))

#define RP_PROVIDER_DATA_(symbol, name) \
	RP_DATA_ASM_(".ifndef " symbol "\n" \
		RP_TABLE_ENTRY_("rp_providers", symbol) \
		RP_SECTION_(".data." symbol, "progbits", symbol) \
		RP_SYMBOL_(symbol) \
		".4byte %c0, 0\n" \
		".8byte %c1, 0\n" \
		RP_SYMBOL_END_(symbol) \
		".endif" \
		: : "i"(sizeof(struct rp_provider_decl)), "i"(RP_CAST_(const char *, name)))

/* One field of an event. The directives for `symbol` come last, so all fields precede it. */
#define RP_FIELD_DATA_(symbol, t) RP_FIELD_DATA_I_(symbol, RP_DESC_(t))
#define RP_FIELD_DATA_I_(...) RP_FIELD_DATA_II_(__VA_ARGS__)
#define RP_FIELD_DATA_II_(symbol, name, members, count, type, element, flags, enumeration) \
	RP_DATA_ASM_(".ifndef " symbol "\n" \
		RP_SECTION_(".data.rel.ro." symbol, "progbits", symbol) \
		".8byte %c0, %c1\n" \
		".2byte %c2\n" \
		".byte %c3, %c4\n" \
		".4byte %c5\n" \
		".8byte %c6\n" \
		".popsection\n" \
		".endif" \
		: : "i"(RP_CAST_(const char *, name)), "i"(RP_CAST_(const void *, members)), \
		    "i"(count), "i"(type), "i"(element), "i"(flags), \
		    "i"(RP_CAST_(const void *, enumeration)));

/*
 * Sixteen bits of a number. gcc does not print a constant that is wider than an instruction's
 * operand.
 */
#define RP_BITS_(number, shift) ((0ull + (number)) >> shift & 0xffff)

/*
 * An event, after its `n` fields. Only an event with a limit has the members for limits, at the
 * end.
 */
#define RP_EVENT_DATA_(symbol, provider, name, message, id, version, level, opcode, flags, \
		       one_in, per_second, keywords, n) \
	RP_DATA_ASM_(".ifndef " symbol "\n" \
		RP_TABLE_ENTRY_("rp_events", symbol) \
		RP_SECTION_(".data.rel.ro." symbol, "progbits", symbol) \
		".Lrp_decl_" symbol ":\n" \
		".4byte %c0, %c1\n" \
		".8byte %c2, %c3, %c4\n" \
		".if %c6\n" \
		".8byte .Lrp_decl_" symbol " - %c6 * %c5\n" \
		".else\n" \
		".8byte 0\n" \
		".endif\n" \
		".2byte %c11, %c12, %c13, %c14\n" \
		".2byte %c6\n" \
		".byte %c7, %c8, %c9, %c10\n" \
		".2byte 0\n" \
		".if %c15 | %c16\n" \
		".4byte %c15, %c16\n" \
		".endif\n" \
		".popsection\n" \
		RP_SECTION_(".probes", "progbits", symbol) \
		".balign 32\n" \
		RP_SYMBOL_(symbol) \
		".8byte 0, 0, .Lrp_decl_" symbol ", 0\n" \
		RP_SYMBOL_END_(symbol) \
		".endif" \
		: : "i"((one_in) || (per_second) ? sizeof(struct rp_event_decl) : \
		    RP_EVENT_DECL_SIZE_V1), "i"(id), "i"(&provider), \
		    "i"(RP_CAST_(const char *, name)), "i"(RP_CAST_(const char *, message)), \
		    "i"(sizeof(struct rp_field)), "i"(n), "i"(version), "i"(level), "i"(opcode), \
		    "i"(flags), "i"(RP_BITS_(keywords, 0)), "i"(RP_BITS_(keywords, 16)), \
		    "i"(RP_BITS_(keywords, 32)), "i"(RP_BITS_(keywords, 48)), "i"(one_in), \
		    "i"(per_second))

#define RP_COUNTER_DATA_(symbol, kind, provider, name, unit, display_name) \
	RP_DATA_ASM_(".ifndef " symbol "\n" \
		RP_TABLE_ENTRY_("rp_counters", symbol) \
		RP_SECTION_(".data.rel.ro." symbol, "progbits", symbol) \
		".Lrp_decl_" symbol ":\n" \
		".4byte %c0, %c1\n" \
		".8byte %c2, %c3, %c4, %c5\n" \
		".8byte 0, 0, 0, 0\n" \
		".popsection\n" \
		RP_SECTION_(".data." symbol, "progbits", symbol) \
		RP_SYMBOL_(symbol) \
		".8byte 0\n" \
		".4byte %c1, 0\n" \
		".8byte 0, .Lrp_decl_" symbol ", 0\n" \
		RP_SYMBOL_END_(symbol) \
		".endif" \
		: : "i"(sizeof(struct rp_counter_decl)), "i"(kind), \
		    "i"(&provider), "i"(RP_CAST_(const char *, name)), \
		    "i"(RP_CAST_(const char *, unit)), "i"(RP_CAST_(const char *, display_name)))

/*
 * A function that is not inlined, and that a file without a call of it does not contain. Without
 * optimisation gcc inlines nothing, but emits every function that is not declared inline.
 */
#ifdef __OPTIMIZE__
#define RP_OUT_OF_LINE_ static __attribute__((noinline, unused))
#else
#define RP_OUT_OF_LINE_ static inline __attribute__((unused))
#endif
#define RP_INLINE_ static inline __attribute__((always_inline, unused))

#endif
