package config

import "time"

// Config is a complete configuration. Treat it as immutable: a change of configuration is a new Config.
type Config struct {
	Listen             []Listener
	TLS                TLS // between clients and the proxy
	Auth               Auth
	AuthQuery          string        // what AuthScram asks for verifiers; "" with an AuthFile: nothing, else the default query
	AuthFile           string        // users and verifiers; "" means none
	AuthCache          time.Duration // how long an answer of AuthQuery is remembered
	Upstream           string        // DSN of the PostgreSQL server that sessions are relayed to; host, port and TLS matter to them
	Control            string        // DSN with the credentials that raise marks and evict; "" means Upstream
	Admin              string        // address of the admin listener; "" means none
	Mode               Mode
	Fences             []Fence
	Hold               Hold
	BareToken          string // fence that a bare token (34, no name) is meant for; "" means the only fence, if there is one
	Opaque             Opaque
	OpaqueCall         OpaqueCall
	Tokenless          Tokenless
	Catalog            Catalog       // whether databases are looked at for what else writes a fence
	CatalogInterval    time.Duration // between two looks when nobody tells of a change
	CatalogConnections int           // that are kept to databases for that
	FunctionCalls      []string      // functions that clients may call outside of SQL: oids, or LargeObjects
	TakeoverGrace      time.Duration // from the first request for a raise until backends in its way are ended
	AnnounceRoles      []string      // roles whose sessions may announce a token; empty means all
	AnnounceMaxJump    int64         // largest distance between a mark and the token announced next
	AllowRoleToken     bool          // accept fence.token from ALTER ROLE/DATABASE ... SET
	HarmlessFunctions  []string      // functions of the application that do not write: name or schema.name
	Limits             Limits
	Replication        Replication
	LogLevel           LogLevel
	LogFormat          LogFormat
	ListenReuseport    bool          // several processes may listen on the same addresses
	DrainDelay         time.Duration // from the first signal, while /readyz says no already, until listeners close
	DrainTimeout       time.Duration // from then until sessions that are still open are closed; also after a reload
	Decisions          Decisions     // which verdicts are logged one by one
	DecisionFile       string        // "" is standard error
	DecisionRate       int           // lines a second at most; 0: no limit
}

// Listener is one address that clients connect to: host:port, or the path of a Unix socket.
type Listener struct {
	Address string
	Pooled  bool // behind a transaction pooler: plain SET fence.token is refused, SET LOCAL works
}

// TLS is what clients of TCP listeners get. Unix sockets are exempt.
type TLS struct {
	Mode           TLSMode
	Cert, Key      string // files in PEM; the certificate's intermediates behind it
	ClientCA       string // file in PEM
	ClientCert     ClientCert
	ChannelBinding ChannelBinding
}

// Hold has the proxy hold a lock for clients that know nothing of it.
type Hold struct {
	Lock        string // name of the lock and of its fence; "" holds none
	Backend     string // URL of the lock service
	WhenNotHeld WhenNotHeld
	Wait        time.Duration // of a client, with HoldWait
}

// Fence names the tables whose writes need the fence's token.
type Fence struct {
	Name     string   // may hold one *: a fence for each name that it matches
	Tables   []string // name, schema.name or schema.*, quoted as in SQL
	RowToken string   // column of the rows' tokens, quoted as in SQL; "" for none
	OnStale  OnStale  // what becomes of a write to a row that a newer token has written; "" is reject
	Scope    string   // jobs/{id}: the row's column id tells its fence; "" for none
}

// Limits bound what strangers can make the proxy hold.
type Limits struct {
	MaxConnections    int           // client sessions at a time; one more is refused with 53300
	LoginTimeout      time.Duration // from accept until the server says the session is ready
	IdleTimeout       time.Duration // a session outside a transaction is ended after so long without a word; 0: never
	IdleInTransaction time.Duration // the same inside a transaction
	MaxStatementBytes int64         // a longer statement is refused
	MaxParseBytes     int64         // a longer statement is not parsed: it counts as one that may write any fence
	CacheBytes        int64         // bound of each of the two plan caches
	Processors        int           // processors that run sessions at a time; 0: half of those there are
}

// ControlDSN is the DSN that marks are raised with.
func (c *Config) ControlDSN() string {
	if c.Control != "" {
		return c.Control
	}
	return c.Upstream
}

// FenceNames are the names of the fences, in the order of the configuration.
func (c *Config) FenceNames() []string {
	names := make([]string, len(c.Fences))
	for i, f := range c.Fences {
		names[i] = f.Name
	}
	return names
}

// BareFence is the fence that a bare token is meant for: the one configured, or the only one; "" when there is none.
func (c *Config) BareFence() string {
	if c.BareToken == "" && len(c.Fences) == 1 {
		return c.Fences[0].Name
	}
	return c.BareToken
}

// Default is the configuration with nothing set.
func Default() *Config {
	return &Config{
		Listen:             []Listener{{Address: "127.0.0.1:6432"}},
		TLS:                TLS{Mode: TLSDisable, ClientCert: ClientCertNone},
		Auth:               AuthRelay,
		AuthCache:          10 * time.Second,
		Mode:               ModeEnforce,
		Hold:               Hold{WhenNotHeld: HoldWait, Wait: 60 * time.Second},
		Opaque:             OpaqueAllow,
		OpaqueCall:         OpaqueCallGuard,
		Tokenless:          TokenlessReadWrite,
		Catalog:            CatalogOn,
		CatalogInterval:    10 * time.Second,
		CatalogConnections: 100,
		FunctionCalls:      []string{LargeObjects},
		TakeoverGrace:      10 * time.Second,
		AnnounceMaxJump:    1_000_000_000,
		Limits: Limits{
			MaxConnections:    1000,
			LoginTimeout:      60 * time.Second,
			MaxStatementBytes: 64 << 20,
			MaxParseBytes:     256 << 10,
			CacheBytes:        16 << 20,
		},
		Replication:  ReplicationRefuse,
		LogLevel:     "info",
		LogFormat:    LogJSON,
		DrainTimeout: 30 * time.Second,
		Decisions:    DecisionsOff,
		DecisionRate: 1000,
	}
}
