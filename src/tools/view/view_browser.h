/* SPDX-License-Identifier: MIT */
/* Opens the page in the user's browser. */
#ifndef RP_TOOL_VIEW_BROWSER_H
#define RP_TOOL_VIEW_BROWSER_H

/*
 * Open the address in the browser that xdg-open chooses, if there is a display. Otherwise, print
 * why not: the user can open the address that the command prints.
 *
 * All users see the arguments of a process, and the address contains a secret. The browser
 * therefore opens a private file that leads to the address.
 *
 * Return: the file's path, for rp_view_browser_close(); NULL: no browser was started.
 */
char *rp_view_browser_open(const char *url);

/* Remove the file. NULL is ignored. */
void rp_view_browser_close(char *path);

#endif
