// Package guardian runs a command in a process group of its own that does not outlive a deadline, whatever happens to the
// process that asked for it.
//
// The wrapper (Start) holds a lock and moves the deadline; the guardian (Main) is a small process beside it that starts
// the command, ends its group before the deadline, and at once when the wrapper is gone. A parent-death signal would reach
// the direct child only, and not when the wrapper is merely stopped. The wrapper in turn kills everything when the guardian
// is dead, or has not done its work when the deadline comes: on Linux both adopt orphans, so whatever descends from the
// command is found below the one that is left. The two speak lines over two pipes:
//
//	wrapper to guardian: until NS | signal N | end          end of file: the wrapper is dead
//	guardian to wrapper: started PID | failed CODE TEXT | late | ended CODE      end of file before "ended": the guardian is dead
//
// Times are nanoseconds of a clock that both read and that a suspended machine does not stop.
package guardian
