#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe explain, on all requests of the shop under the load of the demo."""
import unittest

import record_case
from record_case import SHOP, Case, drive, explain_all, record_shop, without_losses


class Load(Case):
    def record_load(self):
        with drive.shop(SHOP, "--db", self.trace + ".db") as shop:
            return record_shop(self, shop, 512, lambda _: drive.load(shop.url, 1))

    def test_at_most_one_percent_of_the_time_of_requests_is_unexplained(self):
        errors = without_losses(self, self.record_load)
        rows = explain_all(self.trace)
        self.assertGreater(len(rows), 100)
        for row in rows:
            self.assertEqual(sum(row["parts_ns"].values()), row["duration_ns"])
        whole_ns = sum(row["duration_ns"] for row in rows)
        unexplained_ns = sum(row["parts_ns"]["unexplained"] for row in rows)
        self.assertLessEqual(unexplained_ns, 0.01 * whole_ns, errors)
        print(f"# figure: explain: {len(rows)} requests of the demo's load, "
              f"{unexplained_ns / whole_ns:.2%} unexplained")


if __name__ == "__main__":
    record_case.require_recorder()
    unittest.main()
