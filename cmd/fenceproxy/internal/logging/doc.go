// Package logging makes the process's logger and bounds what a flood of rejections writes to it. No line holds SQL: the
// texts of applications carry their data.
package logging
