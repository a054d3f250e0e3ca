/* SPDX-License-Identifier: MIT */
/*
 * The terminal form of `ringpipe top`, by ncurses. One thread at a time uses it. SIGWINCH, SIGTSTP,
 * SIGCONT and SIGQUIT arrive by a signalfd, so the terminal is restored before this process stops
 * or ends.
 */
#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "tools/cli/display_text.h"
#include "tools/cli/signals.h"
#include "tools/client/target.h"
#include "tools/ringpipe/top.h"

#define RESCAN_MS 1000

struct rp_top_screen {
	SCREEN *curses;
	struct termios settings;	/* before ncurses changed them */
	int signal_fd;
	sigset_t old_signals;
	int error_fd;			/* standard error, meanwhile */
	int message_fd;			/* what is printed on standard error meanwhile; or -1 */
	bool is_utf8;
	bool has_color;
	bool is_paused;
	bool has_help;
	enum rp_top_sort sort;
	size_t scroll;			/* rows above the screen */
	struct rp_top_lines shown;
	struct rp_top_view view;	/* the shown one; `target` is valid during a session */
};

static void fill_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGWINCH);
	sigaddset(set, SIGTSTP);
	sigaddset(set, SIGCONT);
	sigaddset(set, SIGQUIT);
}

/* Messages would be overwritten on the terminal, so they wait in a file in memory. */
static void hold_messages(struct rp_top_screen *screen)
{
	screen->message_fd = -1;
	if (!isatty(STDERR_FILENO))
		return;
	screen->message_fd = memfd_create("ringpipe-messages", MFD_CLOEXEC);
	screen->error_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (screen->message_fd >= 0 && screen->error_fd >= 0)
		dup2(screen->message_fd, STDERR_FILENO);
}

static void release_messages(struct rp_top_screen *screen)
{
	char text[4096];
	ssize_t got;

	if (screen->message_fd < 0)
		return;
	if (screen->error_fd >= 0)
		dup2(screen->error_fd, STDERR_FILENO);
	lseek(screen->message_fd, 0, SEEK_SET);
	while ((got = read(screen->message_fd, text, sizeof(text))) > 0) {
		if (write(STDERR_FILENO, text, (size_t)got) < 0)
			break;
	}
	close(screen->message_fd);
	close(screen->error_fd);
}

static int start_curses(struct rp_top_screen *screen)
{
	const char *no_color = getenv("NO_COLOR");

	setlocale(LC_CTYPE, "");
	screen->is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	screen->curses = newterm(NULL, stdout, stdin);
	if (!screen->curses)
		return -ENOTTY;
	/* A terminal without addresses of the cursor. */
	if (!tigetstr("cup") || tigetstr("cup") == (char *)-1) {
		endwin();
		delscreen(screen->curses);
		return -ENOTTY;
	}
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	if (!(no_color && *no_color) && has_colors() && start_color() == OK) {
		use_default_colors();
		init_pair(1, COLOR_RED, -1);
		screen->has_color = true;
	}
	return 0;
}

int rp_top_screen_open(struct rp_top_screen **ret_screen)
{
	struct rp_top_screen *screen;
	sigset_t set;
	int ret;

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		return -ENOTTY;
	screen = calloc(1, sizeof(*screen));
	if (!screen)
		return -ENOMEM;
	tcgetattr(STDIN_FILENO, &screen->settings);
	fill_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &screen->old_signals);
	screen->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	ret = screen->signal_fd < 0 ? -errno : start_curses(screen);
	if (ret) {
		if (screen->signal_fd >= 0)
			close(screen->signal_fd);
		sigprocmask(SIG_SETMASK, &screen->old_signals, NULL);
		free(screen);
		return ret;
	}
	hold_messages(screen);
	*ret_screen = screen;
	return 0;
}

void rp_top_screen_close(struct rp_top_screen *screen)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen->curses);
	release_messages(screen);
	close(screen->signal_fd);
	sigprocmask(SIG_SETMASK, &screen->old_signals, NULL);
	rp_top_lines_fini(&screen->shown);
	rp_top_view_fini(&screen->view);
	free(screen);
}

void rp_top_screen_abandon(struct rp_top_screen *screen)
{
	if (!screen)
		return;
	tcsetattr(STDIN_FILENO, TCSANOW, &screen->settings);
	/* A message would block as the terminal's output does. */
	screen->message_fd = -1;
}

/* Draw the text as far as the row has space. Other characters than ASCII need a UTF-8 locale. */
static void draw_text(const struct rp_top_screen *screen, int row, const char *text)
{
	const int space = getmaxx(stdscr);
	mbstate_t state = { 0 };
	int column = 0;

	move(row, 0);
	while (*text) {
		wchar_t character;
		const size_t length = mbrtowc(&character, text, strlen(text), &state);
		const int width = screen->is_utf8 && length <= MB_LEN_MAX ? wcwidth(character) : -1;

		if (width < 0 && (unsigned char)*text < 128) {
			if (column + 1 > space)
				break;
			addch((chtype)(unsigned char)*text++);
			column++;
			continue;
		}
		if (column + (width < 0 ? 1 : width) > space)
			break;
		if (width >= 0)
			addnwstr(&character, 1);
		else
			addch('?');
		column += width < 0 ? 1 : width;
		if (width < 0)
			state = (mbstate_t){ 0 };
		/* The text is valid UTF-8, whatever the locale. */
		do
			text++;
		while (((unsigned char)*text & 0xc0) == 0x80);
	}
}

static void format_lines(struct rp_top_screen *screen)
{
	static const char *const help[] = {
		"Keys of ringpipe top", "", "q        quit", "p        choose another process",
		"s        sort the spans by the next column: rate, total time, p99, max, name",
		"space    pause, and go on",
		"arrows, Page Up, Page Down, Home, End    scroll", "h ?      this help, and back",
	};

	rp_top_lines_fini(&screen->shown);
	if (screen->has_help) {
		screen->shown.rows = calloc(sizeof(help) / sizeof(help[0]), sizeof(char *));
		for (size_t i = 0; screen->shown.rows && i < sizeof(help) / sizeof(help[0]); i++) {
			char *copy = strdup(help[i]);

			if (copy)
				screen->shown.rows[screen->shown.count++] = copy;
		}
	} else if (screen->view.target) {
		screen->view.sort = screen->sort;
		rp_top_view_sort(&screen->view);
		rp_top_lines_format(&screen->shown, &screen->view, (size_t)getmaxx(stdscr),
				    SIZE_MAX);
	}
}

static size_t page(void)
{
	return getmaxy(stdscr) > 1 ? (size_t)getmaxy(stdscr) - 1 : 1;
}

static void draw(struct rp_top_screen *screen)
{
	char bar[160];
	const size_t count = screen->shown.count;

	if (screen->scroll + page() > count)
		screen->scroll = count > page() ? count - page() : 0;
	erase();
	for (size_t i = 0; i < page() && screen->scroll + i < count; i++) {
		const char *text = screen->shown.rows[screen->scroll + i];
		/* The headings are in capitals, and the second line has the losses. */
		const bool is_heading = !strncmp(text, "SPAN ", 5) ||
					!strncmp(text, "FUNCTION ", 9) ||
					!strncmp(text, "COUNTER ", 8);
		const bool is_alarm = !screen->has_help && screen->scroll + i == 1 &&
				      screen->view.cut.now.lost > 0;

		attrset(is_heading ? A_REVERSE : is_alarm ? A_BOLD : A_NORMAL);
		if (is_alarm && screen->has_color)
			attron(COLOR_PAIR(1));
		draw_text(screen, (int)i, text);
	}
	if (count == 0)
		draw_text(screen, 0, "waiting for the process");
	snprintf(bar, sizeof(bar), "%sq quit  h help  sorted by %s",
		 screen->is_paused ? "PAUSED  " : "", rp_top_sort_name(screen->sort));
	attrset(A_BOLD);
	if (getmaxy(stdscr) > 1)
		draw_text(screen, getmaxy(stdscr) - 1, bar);
	attrset(A_NORMAL);
	refresh();
}

void rp_top_screen_show(struct rp_top_screen *screen, struct rp_top_view *view)
{
	if (view && !screen->is_paused) {
		rp_top_view_fini(&screen->view);
		screen->view = *view;
		/* The screen owns the copy's memory now. */
		*view = (struct rp_top_view){ 0 };
	}
	format_lines(screen);
	draw(screen);
}

/* Stop this process as the shell expects, with the terminal restored. */
static void stop_process(void)
{
	sigset_t set;

	endwin();
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void quit_by_signal(void)
{
	sigset_t set;

	endwin();
	sigemptyset(&set);
	sigaddset(&set, SIGQUIT);
	signal(SIGQUIT, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(SIGQUIT);
}

static void fit_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
		resizeterm(size.ws_row, size.ws_col);
	clearok(stdscr, TRUE);
}

static void take_signals(const struct rp_top_screen *screen)
{
	struct signalfd_siginfo info;

	while (read(screen->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			stop_process();
		else if (info.ssi_signo == SIGQUIT)
			quit_by_signal();
		else if (info.ssi_signo == SIGCONT)
			reset_prog_mode();	/* SIGSTOP gave no time to restore the settings */
		/* The next refresh() takes the terminal again. */
		fit_size();
	}
}

static void scroll_by(struct rp_top_screen *screen, int key)
{
	const size_t step = key == KEY_PPAGE || key == KEY_NPAGE ? page() : 1;

	if (key == KEY_HOME)
		screen->scroll = 0;
	else if (key == KEY_END)
		screen->scroll = screen->shown.count;
	else if (key == KEY_DOWN || key == KEY_NPAGE)
		screen->scroll += step;
	else if (key == KEY_UP || key == KEY_PPAGE)
		screen->scroll = screen->scroll > step ? screen->scroll - step : 0;
}

static enum rp_top_wish take_key(struct rp_top_screen *screen, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return RP_TOP_QUIT;
	case 'p':
		return RP_TOP_CHOOSE;
	case 's':
		screen->sort = (enum rp_top_sort)((screen->sort + 1) % RP_TOP_SORT_COUNT);
		break;
	case ' ':
		screen->is_paused = !screen->is_paused;
		break;
	case 'h':
	case '?':
		screen->has_help = !screen->has_help;
		screen->scroll = 0;
		break;
	default:
		scroll_by(screen, key);
	}
	return RP_TOP_GO_ON;
}

/* Return: whether the terminal is still there. */
static bool wait_for_input(const struct rp_top_screen *screen, int fd, int timeout_ms)
{
	struct pollfd waits[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = screen->signal_fd, .events = POLLIN },
		{ .fd = fd, .events = POLLIN },
	};

	poll(waits, 3, timeout_ms);
	return !(waits[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

enum rp_top_wish rp_top_screen_wait(struct rp_top_screen *screen, int fd, int timeout_ms)
{
	enum rp_top_wish wish = RP_TOP_GO_ON;
	bool has_changed = false;
	int key;

	if (!wait_for_input(screen, fd, timeout_ms))
		return RP_TOP_QUIT;
	take_signals(screen);
	while (wish == RP_TOP_GO_ON && (key = getch()) != ERR) {
		wish = take_key(screen, key);
		has_changed = true;
	}
	if (wish == RP_TOP_CHOOSE) {
		rp_top_view_fini(&screen->view);
		screen->view = (struct rp_top_view){ 0 };
	}
	if (has_changed || is_wintouched(stdscr) || screen->shown.count == 0 ||
	    is_cleared(stdscr))
		rp_top_screen_show(screen, NULL);
	return wish;
}

/* Return: the first row of the process; if it has ended, that of the next one, or the last row. */
static size_t row_of(const struct rp_target_list *list, pid_t pid)
{
	size_t row = 0;

	while (row + 1 < list->count && list->rows[row].pid < pid)
		row++;
	return row;
}

/* Return: the first process after this one, or before it; if there is none, this one. */
static pid_t neighbour(const struct rp_target_list *list, pid_t pid, bool is_after)
{
	size_t row = row_of(list, pid);

	while (is_after && row + 1 < list->count && list->rows[row].pid <= pid)
		row++;
	while (!is_after && row > 0 && list->rows[row].pid >= pid)
		row--;
	return list->count ? list->rows[row].pid : 0;
}

static void draw_targets(struct rp_top_screen *screen, const struct rp_target_list *list,
			 pid_t chosen)
{
	const size_t row = row_of(list, chosen);
	const size_t first = row >= page() - 1 && page() > 1 ? row - (page() - 2) : 0;

	erase();
	draw_text(screen, 0, list->count ? "Choose a process: arrows and Enter; q quits" :
		  "No process can be traced yet; q quits");
	for (size_t i = first; i < list->count && i - first + 1 < page() + 1; i++) {
		char *clean = NULL, text[512];

		snprintf(text, sizeof(text), "%d %s  %s", list->rows[i].pid, list->rows[i].name,
			 list->rows[i].command_line);
		clean = rp_text_clean(text, true);
		attrset(i == row ? A_REVERSE : A_NORMAL);
		draw_text(screen, (int)(i - first + 1), clean ? clean : "?");
		attrset(A_NORMAL);
		free(clean);
	}
	refresh();
}

/* Return: whether the choice is over; `chosen` is 0 if no process is to be shown. */
static bool choose_by_keys(const struct rp_target_list *list, pid_t *chosen)
{
	int key;

	while ((key = getch()) != ERR) {
		if (key == 'q' || key == 'Q') {
			*chosen = 0;
			return true;
		}
		if (key == KEY_DOWN || key == KEY_UP)
			*chosen = neighbour(list, *chosen, key == KEY_DOWN);
		if ((key == '\n' || key == '\r' || key == KEY_ENTER) && list->count)
			return true;
	}
	return false;
}

static bool has_signal(int signal_fd)
{
	struct signalfd_siginfo info;
	bool has_one = false;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
		has_one |= info.ssi_signo != SIGCHLD;
	return has_one;
}

pid_t rp_top_screen_choose(struct rp_top_screen *screen, int signal_fd)
{
	pid_t chosen = 0;

	for (bool is_over = false; !is_over;) {
		struct rp_target_list list;

		if (rp_target_list_scan(&list))
			return 0;
		/* Processes that start and end while the user chooses leave the choice alone. */
		chosen = list.count ? list.rows[row_of(&list, chosen)].pid : 0;
		draw_targets(screen, &list, chosen);
		if (!wait_for_input(screen, signal_fd, RESCAN_MS) || has_signal(signal_fd)) {
			chosen = 0;
			is_over = true;
		}
		take_signals(screen);
		if (!is_over)
			is_over = choose_by_keys(&list, &chosen);
		rp_target_list_fini(&list);
	}
	return chosen;
}
