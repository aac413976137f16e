package guardian

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

const prSetChildSubreaper = 36

// adoptOrphans makes us the parent of the command's orphans, so that we see them, and when they end.
func adoptOrphans() { syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0) }

// dieWithUs makes the command's first process end when we do.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// parents maps each process to its parent.
func parents() map[int]int {
	all := map[int]int{}
	dir, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// pid (comm) state ppid ...: comm may hold anything
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if len(fields) > 1 {
			all[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return all
}

func reapOrphans(leader int) {
	for pid, parent := range parents() {
		if parent == os.Getpid() && pid != leader {
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

func killDescendants() {
	all := parents()
	us := os.Getpid()
	for pid := range all {
		for at, depth := all[pid], 0; at > 1 && depth < 1000; at, depth = all[at], depth+1 {
			if at == us {
				syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
}
