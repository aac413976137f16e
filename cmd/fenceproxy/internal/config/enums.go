package config

// Mode says what the proxy does with what it finds.
type Mode string

const (
	ModeEnforce Mode = "enforce" // guard, raise, evict, refuse
	ModeObserve Mode = "observe" // change no byte, raise and evict nothing, count and log what enforce would refuse
	ModeOff     Mode = "off"     // relay only
)

// Opaque says what happens to a statement that calls code which may write anything, in a session without a token.
type Opaque string

const (
	OpaqueAllow  Opaque = "allow"
	OpaqueReject Opaque = "reject"
)

// OpaqueCall says what happens to CALL and DO, which may commit inside and so cannot always run behind a guard.
type OpaqueCall string

const (
	OpaqueCallGuard  OpaqueCall = "guard"
	OpaqueCallAllow  OpaqueCall = "allow"
	OpaqueCallReject OpaqueCall = "reject"
)

// Replication says what happens to connections that ask for replication.
type Replication string

const (
	ReplicationRefuse Replication = "refuse"
	ReplicationAllow  Replication = "allow" // physical passes untouched, logical is inspected like any session
)

// LogLevel is the lowest level that is logged.
type LogLevel string

// LogFormat is how a log line looks.
type LogFormat string

const (
	LogJSON    LogFormat = "json"
	LogConsole LogFormat = "console"
)

var (
	modes        = []string{string(ModeEnforce), string(ModeObserve), string(ModeOff)}
	opaques      = []string{string(OpaqueAllow), string(OpaqueReject)}
	opaqueCalls  = []string{string(OpaqueCallGuard), string(OpaqueCallAllow), string(OpaqueCallReject)}
	replications = []string{string(ReplicationRefuse), string(ReplicationAllow)}
	logLevels    = []string{"debug", "info", "warn", "error"}
	logFormats   = []string{string(LogJSON), string(LogConsole)}
)
