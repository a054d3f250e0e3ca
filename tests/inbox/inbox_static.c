/* SPDX-License-Identifier: MIT */
/* A program without a loader, which `ringpipe inbox` refuses. */
int main(void)
{
	return 0;
}
