package wire

import (
	"encoding/binary"

	"github.com/jackc/pgproto3/v2"
)

// AppendQuery appends a Query message.
func AppendQuery(dst []byte, sql string) []byte {
	m := pgproto3.Query{String: sql}
	return must(m.Encode(dst))
}

// AppendParse appends a Parse message.
func AppendParse(dst []byte, name, sql string, oids ...uint32) []byte {
	m := pgproto3.Parse{Name: name, Query: sql, ParameterOIDs: oids}
	return must(m.Encode(dst))
}

// AppendBind appends a Bind message with parameters and results in text format. A nil parameter is NULL.
func AppendBind(dst []byte, portal, statement string, params ...[]byte) []byte {
	m := pgproto3.Bind{DestinationPortal: portal, PreparedStatement: statement, Parameters: params}
	return must(m.Encode(dst))
}

// AppendExecute appends an Execute message for all rows of the portal.
func AppendExecute(dst []byte, portal string) []byte {
	m := pgproto3.Execute{Portal: portal}
	return must(m.Encode(dst))
}

// AppendClose appends a Close message; target is TargetStatement or TargetPortal.
func AppendClose(dst []byte, target byte, name string) []byte {
	m := pgproto3.Close{ObjectType: target, Name: name}
	return must(m.Encode(dst))
}

// AppendSync appends a Sync message.
func AppendSync(dst []byte) []byte {
	m := pgproto3.Sync{}
	return must(m.Encode(dst))
}

// AppendReadyForQuery appends a ReadyForQuery message.
func AppendReadyForQuery(dst []byte, state byte) []byte {
	m := pgproto3.ReadyForQuery{TxStatus: state}
	return must(m.Encode(dst))
}

// must: pgproto3 fails only on messages over 1 GB, and the proxy never makes one.
func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// finish sets the length word of the message that starts at dst[start].
func finish(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	return dst
}
