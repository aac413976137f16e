package config

import "slices"

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

// Tokenless says what a session without a token may do that no fence forbids.
type Tokenless string

const (
	TokenlessReadWrite      Tokenless = "readwrite"
	TokenlessOpaqueReadOnly Tokenless = "opaque-readonly" // code that may write anything runs in a read-only transaction
	TokenlessReadOnly       Tokenless = "readonly"        // all of it does
)

// Rank orders them by what they allow, the least last.
func (t Tokenless) Rank() int { return slices.Index(tokenlesses, string(t)) }

// Catalog says whether sessions are judged by what their database's catalog tells, beside the configuration.
type Catalog string

const (
	CatalogOn  Catalog = "on"
	CatalogOff Catalog = "off"
)

// OpaqueCall says what happens to CALL and DO, which may commit inside and so cannot always run behind a guard.
type OpaqueCall string

const (
	OpaqueCallGuard  OpaqueCall = "guard"
	OpaqueCallAllow  OpaqueCall = "allow"
	OpaqueCallReject OpaqueCall = "reject"
)

// LargeObjects, in FunctionCalls, stands for the functions that drivers use large objects with.
const LargeObjects = "large_objects"

// Replication says what happens to connections that ask for replication.
type Replication string

const (
	ReplicationRefuse Replication = "refuse"
	ReplicationAllow  Replication = "allow" // physical passes untouched, logical is inspected like any session
)

// WhenNotHeld says what a client gets while another instance holds the lock of Hold.
type WhenNotHeld string

const (
	HoldWait     WhenNotHeld = "wait"     // it waits, at most Hold.Wait
	HoldRefuse   WhenNotHeld = "refuse"   // an error
	HoldReadOnly WhenNotHeld = "readonly" // a session without a token, which is read-only
)

// TLSMode says which clients of TCP listeners have TLS.
type TLSMode string

const (
	TLSDisable TLSMode = "disable" // none
	TLSAllow   TLSMode = "allow"   // those that ask for it
	TLSRequire TLSMode = "require" // all
)

// ClientCert says what clients must show of themselves, as clientcert in pg_hba.conf.
type ClientCert string

const (
	ClientCertNone       ClientCert = "none"
	ClientCertVerifyCA   ClientCert = "verify-ca"   // a certificate signed by tls.client_ca
	ClientCertVerifyFull ClientCert = "verify-full" // and its common name is the user
)

// ChannelBinding says how clients can log in with TLS on both legs, when the proxy relays their password exchange. There
// is no default: see Config.bothLegs.
type ChannelBinding string

const (
	BindingSameCertificate ChannelBinding = "same-certificate" // the proxy has the certificate and key of PostgreSQL
	BindingDisabled        ChannelBinding = "disabled"         // no client uses it
)

// Auth says to whom clients prove that they know their password.
type Auth string

const (
	AuthRelay Auth = "relay" // to PostgreSQL, by any method that it asks for
	AuthScram Auth = "scram" // to the proxy, and the proxy to PostgreSQL
)

// Decisions says which verdicts are logged one by one.
type Decisions string

const (
	DecisionsOff        Decisions = "off"
	DecisionsRejections Decisions = "rejections" // what was refused
	DecisionsAll        Decisions = "all"        // every fenced or opaque statement
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
	tokenlesses  = []string{string(TokenlessReadWrite), string(TokenlessOpaqueReadOnly), string(TokenlessReadOnly)}
	catalogs     = []string{string(CatalogOn), string(CatalogOff)}
	opaqueCalls  = []string{string(OpaqueCallGuard), string(OpaqueCallAllow), string(OpaqueCallReject)}
	notHelds     = []string{string(HoldWait), string(HoldRefuse), string(HoldReadOnly)}
	replications = []string{string(ReplicationRefuse), string(ReplicationAllow)}
	tlsModes     = []string{string(TLSDisable), string(TLSAllow), string(TLSRequire)}
	clientCerts  = []string{string(ClientCertNone), string(ClientCertVerifyCA), string(ClientCertVerifyFull)}
	auths        = []string{string(AuthRelay), string(AuthScram)}
	bindings     = []string{string(BindingSameCertificate), string(BindingDisabled)}
	decisions    = []string{string(DecisionsOff), string(DecisionsRejections), string(DecisionsAll)}
	logLevels    = []string{"debug", "info", "warn", "error"}
	logFormats   = []string{string(LogJSON), string(LogConsole)}
)
