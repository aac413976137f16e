package guardian

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

const prSetChildSubreaper = 36

// adoptOrphans makes us the parent of our descendants' orphans, so that we find them, and hear when they end.
func adoptOrphans() { syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0) }

// dieWithUs makes the command's first process end when we do.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// process is a line of the system's table.
type process struct {
	parent, group int
	dead          bool // nobody has waited for it yet
}

// processes are all of the system that we may see; empty without /proc.
func processes() map[int]process {
	all := map[int]process{}
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
		// pid (comm) state ppid pgrp ...: comm may hold anything
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if len(fields) < 3 {
			continue
		}
		p := process{dead: fields[0] == "Z" || fields[0] == "X"}
		p.parent, _ = strconv.Atoi(fields[1])
		p.group, _ = strconv.Atoi(fields[2])
		all[pid] = p
	}
	return all
}

// descendants are the living processes below us. Those in except, and what is below them, are not ours.
func descendants(except map[int]bool) (pids []int) {
	all, us := processes(), os.Getpid()
	for pid, p := range all {
		if p.dead {
			continue
		}
		for at, depth := pid, 0; at > 1 && depth < len(all) && !except[at]; at, depth = all[at].parent, depth+1 {
			if all[at].parent == us {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// onlyDead reports whether a group that exists has no living member: nobody has waited for the dead.
func onlyDead(id int) bool {
	found := false
	for _, p := range processes() {
		if p.group == id {
			if !p.dead {
				return false
			}
			found = true
		}
	}
	return found
}
