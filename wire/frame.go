package wire

import "encoding/binary"

// HeaderLen is the size of the type byte and length word in front of every message after the startup packet.
const HeaderLen = 5

// MaxLength is the largest length word that PostgreSQL itself can send or takes: a body of MaxAllocSize bytes and the
// word (memutils.h; pqcomm.c pq_getmessage refuses more).
const MaxLength = 0x3fffffff + 4

// Frame reads the header at the start of b, which must hold at least HeaderLen bytes. size is that of the whole message,
// type byte and length word included: HeaderLen to MaxLength+1. ok is false when the length word cannot be one: less
// than its own 4 bytes, negative or larger than MaxLength.
func Frame(b []byte) (typ byte, size int, ok bool) {
	n := binary.BigEndian.Uint32(b[1:HeaderLen])
	return b[0], int(n) + 1, n-4 <= MaxLength-4
}

// Message types of the frontend.
const (
	FrontendBind         = 'B'
	FrontendClose        = 'C'
	FrontendCopyData     = 'd'
	FrontendCopyDone     = 'c'
	FrontendCopyFail     = 'f'
	FrontendDescribe     = 'D'
	FrontendExecute      = 'E'
	FrontendFlush        = 'H'
	FrontendFunctionCall = 'F'
	FrontendParse        = 'P'
	FrontendPassword     = 'p' // also SASLInitialResponse, SASLResponse, GSSResponse
	FrontendQuery        = 'Q'
	FrontendSync         = 'S'
	FrontendTerminate    = 'X'
)

// Message types of the backend.
const (
	BackendAuthentication       = 'R'
	BackendBindComplete         = '2'
	BackendCloseComplete        = '3'
	BackendCommandComplete      = 'C'
	BackendCopyBothResponse     = 'W'
	BackendCopyData             = 'd'
	BackendCopyDone             = 'c'
	BackendCopyInResponse       = 'G'
	BackendCopyOutResponse      = 'H'
	BackendDataRow              = 'D'
	BackendEmptyQueryResponse   = 'I'
	BackendErrorResponse        = 'E'
	BackendFunctionCallResponse = 'V'
	BackendKeyData              = 'K'
	BackendNegotiateProtocol    = 'v'
	BackendNoData               = 'n'
	BackendNoticeResponse       = 'N'
	BackendNotification         = 'A'
	BackendParameterDescription = 't'
	BackendParameterStatus      = 'S'
	BackendParseComplete        = '1'
	BackendPortalSuspended      = 's'
	BackendReadyForQuery        = 'Z'
	BackendRowDescription       = 'T'
)

// Transaction states in ReadyForQuery.
const (
	TxIdle   = 'I'
	TxActive = 'T'
	TxFailed = 'E'
)
