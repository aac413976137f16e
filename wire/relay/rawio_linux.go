package relay

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sysRecv and sysSend are for sockets that do not block. They do not tell the scheduler that a system call is under way, as the
// wrappers of package syscall do: it is over sooner than anybody could make use of that.

func sysRecv(fd int, b []byte) (int, syscall.Errno) {
	n, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
	return int(n), err
}

func sysSend(fd int, b []byte) (int, syscall.Errno) {
	n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), err
}
