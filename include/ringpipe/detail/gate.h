/* SPDX-License-Identifier: MIT */
/*
 * The gate at each call site, without and with a static key: it tests whether a session or tracer
 * wants the event.
 */
#ifndef RINGPIPE_DETAIL_GATE_H
#define RINGPIPE_DETAIL_GATE_H

/*
 * The gate without a static key: a comparison with memory, fused with its branch. It is inline
 * assembly, because a compiler expands an atomic load into three instructions and would hoist a
 * plain load out of a loop.
 */
#if defined(__x86_64__)
#define RP_GATE_0(word, label) \
	__asm__ goto("cmpq $0, %0\n\tjne %l[" #label "]" : : "m"(word) : "cc" : label)
#else
#define RP_GATE_0(word, label) \
	do { \
		if (__builtin_expect(__atomic_load_n(&(word), __ATOMIC_RELAXED) != 0, 0)) \
			goto label; \
	} while (0)
#endif

/*
 * The gate with a static key: a jump of five bytes to the code that tests the enable word. While
 * the event is disabled, the library changes the first byte to that of `test $imm32, %eax`. The
 * table entry belongs to the section of the code ("o") and to its group ("?"), so the linker keeps
 * or drops both together.
 */
#if defined(__x86_64__)
#if defined(__clang__) || __GNUC__ < 9
#define RP_KEY_ASM_ __asm__ goto
#else
#define RP_KEY_ASM_ __asm__ __inline__ goto	/* gcc assumes minimum size, not lines */
#endif
#define RP_GATE_1(word, label) \
	RP_KEY_ASM_(".Lrp_key%=: .byte 0xe9\n\t" \
		".long %l[" #label "] - . - 4\n\t" \
		".pushsection rp_keys,\"ao?\",@progbits,.Lrp_key%=\n\t" \
		".balign 4\n\t" \
		".long .Lrp_key%= - .\n\t" \
		".long %c0 - .\n\t" \
		".popsection" : : "i"(&(word)) : "cc" : label)
#define RP_GATE_AGAIN_1(word) \
	if (__atomic_load_n(&(word), __ATOMIC_RELAXED) == 0) \
		return 0;
#else
#define RP_GATE_1(word, label) RP_GATE_0(word, label)
#define RP_GATE_AGAIN_1(word)
#endif
#define RP_GATE_AGAIN_0(word)

#if defined(__GNUC__) && !defined(__clang__)
#define RP_COLD_LABEL_ __attribute__((cold))
#else
#define RP_COLD_LABEL_
#endif

#define RP_ENABLED_0(word) \
	return __atomic_load_n(&(word), __ATOMIC_RELAXED) != 0;
#define RP_ENABLED_1(word) \
	RP_GATE_1(word, wanted); \
	return 0; \
wanted: RP_COLD_LABEL_; \
	return __atomic_load_n(&(word), __ATOMIC_RELAXED) != 0;

#endif
