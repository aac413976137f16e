package guardian

import (
	"os"
	"syscall"
)

// inherit lets the processes that are started from now on have f, under the same number. Not by exec.Cmd.ExtraFiles, which
// would take the place of descriptors that we were given for the command.
func inherit(f *os.File) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETFD, 0); errno != 0 {
		return os.NewSyscallError("fcntl", errno)
	}
	return nil
}

// Copy is a copy of a connection's descriptor: while it is open the other side does not see the connection end. Nothing
// may be read or written by it.
func Copy(c syscall.Conn) (*os.File, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd uintptr
	var errno syscall.Errno
	err = raw.Control(func(own uintptr) {
		fd, _, errno = syscall.Syscall(syscall.SYS_FCNTL, own, syscall.F_DUPFD_CLOEXEC, 0)
	})
	if err == nil && errno != 0 {
		err = os.NewSyscallError("fcntl", errno)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(fd, "connection"), nil
}
