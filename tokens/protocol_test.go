package tokens

import (
	"strconv"

	"github.com/jackc/pgx/v5/pgproto3"
)

func itoa(n int32) string { return strconv.Itoa(int(n)) }

func sendBind(fe *pgproto3.Frontend, portal, statement string, params [][]byte) {
	fe.Send(&pgproto3.Bind{DestinationPortal: portal, PreparedStatement: statement, Parameters: params})
}

// executeBoth executes the portals pl and pr and returns "ok" or the SQLSTATE.
func executeBoth(fe *pgproto3.Frontend) string {
	fe.Send(&pgproto3.Execute{Portal: "pl"})
	fe.Send(&pgproto3.Execute{Portal: "pr"})
	fe.Send(&pgproto3.Sync{})
	if err := fe.Flush(); err != nil {
		return "lost"
	}
	result := "ok"
	for {
		msg, err := fe.Receive()
		if err != nil {
			return "lost"
		}
		switch m := msg.(type) {
		case *pgproto3.ErrorResponse:
			result = m.Code
		case *pgproto3.ReadyForQuery:
			return result
		}
	}
}
