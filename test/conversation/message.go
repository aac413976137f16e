package conversation

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Encode appends the messages that a '>' line stands for:
//
//	Query SQL · Parse NAME SQL · Bind PORTAL NAME [value ...] · Describe portal|statement NAME · Execute PORTAL [rows]
//	Close portal|statement NAME · Sync · Flush · Terminate · CopyData TEXT · CopyDone · CopyFail TEXT
//	Run SQL (Parse, Bind, Execute, all unnamed) · Show SQL (the same with Describe) · Raw TYPE HEX (length is added)
//
// The unnamed statement or portal is written "-". TEXT may hold Go's escapes.
func Encode(dst []byte, line string) ([]byte, error) {
	verb, rest, _ := strings.Cut(line, " ")
	first, second, _ := strings.Cut(rest, " ")
	var list []pgproto3.FrontendMessage
	switch verb {
	case "Query":
		list = append(list, &pgproto3.Query{String: rest})
	case "Parse":
		list = append(list, &pgproto3.Parse{Name: name(first), Query: second})
	case "Bind":
		bind := &pgproto3.Bind{DestinationPortal: name(first)}
		words := strings.Fields(second)
		if len(words) > 0 {
			bind.PreparedStatement = name(words[0])
			for _, value := range words[1:] {
				bind.Parameters = append(bind.Parameters, []byte(value))
			}
		}
		list = append(list, bind)
	case "Describe", "Close":
		object := map[string]byte{"portal": 'P', "statement": 'S'}[first]
		if object == 0 {
			return dst, fmt.Errorf("%s what?", verb)
		}
		if verb == "Close" {
			list = append(list, &pgproto3.Close{ObjectType: object, Name: name(second)})
		} else {
			list = append(list, &pgproto3.Describe{ObjectType: object, Name: name(second)})
		}
	case "Execute":
		rows, _ := strconv.ParseUint(second, 10, 32)
		list = append(list, &pgproto3.Execute{Portal: name(first), MaxRows: uint32(rows)})
	case "Run":
		list = append(list, &pgproto3.Parse{Query: rest}, &pgproto3.Bind{}, &pgproto3.Execute{})
	case "Show":
		list = append(list, &pgproto3.Parse{Query: rest}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{})
	case "Sync":
		list = append(list, &pgproto3.Sync{})
	case "Flush":
		list = append(list, &pgproto3.Flush{})
	case "Terminate":
		list = append(list, &pgproto3.Terminate{})
	case "CopyDone":
		list = append(list, &pgproto3.CopyDone{})
	case "CopyData", "CopyFail":
		text, err := strconv.Unquote(`"` + rest + `"`)
		if err != nil {
			return dst, err
		}
		if verb == "CopyData" {
			list = append(list, &pgproto3.CopyData{Data: []byte(text)})
		} else {
			list = append(list, &pgproto3.CopyFail{Message: text})
		}
	case "Raw":
		body, err := hex.DecodeString(strings.ReplaceAll(second, " ", ""))
		if err != nil || len(first) != 1 {
			return dst, fmt.Errorf("want: Raw TYPE HEX: %v", err)
		}
		dst = binary.BigEndian.AppendUint32(append(dst, first[0]), uint32(len(body)+4))
		return append(dst, body...), nil
	default:
		return dst, fmt.Errorf("unknown message %q", verb)
	}
	var err error
	for _, message := range list {
		if dst, err = message.Encode(dst); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func name(word string) string {
	if word == "-" {
		return ""
	}
	return word
}
