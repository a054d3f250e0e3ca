/* SPDX-License-Identifier: MIT */
/* A provider's GUID, compared with those of the .NET runtime's own providers. */
#include "core_support.h"

#include <stdio.h>

/* System.Guid's text reads the first three groups from little-endian bytes of the hash. */
static void expect_guid(const char *name, const char *expected)
{
	struct rp_guid guid;
	char text[40];
	size_t length = 0;

	rp_guid_from_name(name, &guid);
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[length++] = '-';
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%02x",
					   guid.bytes[i]);
	}
	cr_assert_str_eq(text, expected, "%s: %s, not %s", name, text, expected);
}

Test(core_guid, known_providers_have_their_known_guids)
{
	expect_guid("Universal.System", "8c107b6c-79f8-5231-4de6-2a0e20a3f562");
	expect_guid("Universal.Events", "bc5e5d63-9799-5873-33d9-fba8316cef71");
	expect_guid("System.Diagnostics.Metrics", "20752bc4-c151-50f5-f27b-df92d8af5a61");
	expect_guid("System.Runtime", "49592c0f-5a05-516d-aa4b-a64e02026c89");
	expect_guid("Microsoft-DotNETCore-EventPipe", "92f528a6-f5b8-5160-a7ee-b33da7739e29");
}

Test(core_guid, case_of_ascii_letters_does_not_matter)
{
	expect_guid("universal.SYSTEM", "8c107b6c-79f8-5231-4de6-2a0e20a3f562");
}

/* As documented for .NET's EventSource. */
Test(core_guid, letters_beyond_ascii_are_upper_cased_as_dotnet_does)
{
	expect_guid("Z\u00fcrich-Stra\u00dfe", "cafe1a29-346a-5790-bbfd-41f2835bf21e");
	expect_guid("\u00ff\u00f7x", "6b244be3-2b1a-5a13-ebfb-5c57c715d717");
	expect_guid("\u03a9mega-\u03ce\u03c2", "c757758e-2be6-5702-6161-502d24d021e1");
	expect_guid("\u041f\u0440\u0438\u0432\u0435\u0442-\u0451",
		    "bd0b4a0c-d8d4-5f38-b702-c8e029833be2");
}

/* Computed independently of this code, with Python's hashlib. */
Test(core_guid, code_points_above_ffff_are_hashed_as_surrogates)
{
	expect_guid("\xf0\x9f\x98\x80", "1e70abc6-ecea-57b2-193b-86b4419aa8fb");
}

Test(core_guid, names_of_every_length_around_a_block_differ)
{
	struct rp_guid guids[120];
	char name[128];

	/*
	 * The first block has space for 24 letters after the namespace: the lengths cross two block
	 * ends.
	 */
	for (size_t i = 0; i < 120; i++) {
		memset(name, 'A', sizeof(name));
		name[i] = '\0';
		rp_guid_from_name(name, &guids[i]);
		cr_assert_eq(guids[i].bytes[6] >> 4, 5, "version 5, for %zu letters", i);
		for (size_t j = 0; j < i; j++)
			cr_assert_neq(memcmp(&guids[i], &guids[j], sizeof(guids[0])), 0);
	}
}
