package guardian

/*
#include <signal.h>
#include <stdint.h>

static uint64_t ignored;

// Before Go's runtime puts its own handlers in their place.
__attribute__((constructor)) static void look(void) {
	for (int s = 1; s < 64; s++) {
		struct sigaction a;
		if (sigaction(s, 0, &a) == 0 && a.sa_handler == SIG_IGN)
			ignored |= (uint64_t)1 << s;
	}
}

static uint64_t ignored_at_start(void) { return ignored; }
*/
import "C"

import (
	"os/signal"
	"syscall"
)

// Ignored reports whether the signal was ignored when this process began, as by nohup, by trap "", or for a background
// job. package signal knows that of SIGHUP and SIGINT only.
func Ignored(s syscall.Signal) bool { return C.ignored_at_start()>>uint(s)&1 == 1 }

// inheritable are the signals whose being ignored is somebody's will. Not SIGCHLD: who ignores it hears nothing of his
// children.
var inheritable = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGXFSZ}

// KeepIgnored goes on ignoring what was ignored when this process began, which processes started from now on inherit.
func KeepIgnored() {
	for _, s := range inheritable {
		if Ignored(s) {
			signal.Ignore(s)
		}
	}
}
