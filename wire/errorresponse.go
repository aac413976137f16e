package wire

import (
	"strconv"

	"github.com/jackc/pgproto3/v2"
)

// Fields of ErrorResponse and NoticeResponse that the proxy reads or writes.
const (
	FieldSeverity    = 'S' // localised
	FieldSeverityRaw = 'V' // never localised
	FieldCode        = 'C'
	FieldMessage     = 'M'
	FieldDetail      = 'D'
	FieldHint        = 'H'
	FieldPosition    = 'P'
	FieldDatatype    = 'd'
)

// ErrorFields walks over the body of an ErrorResponse or NoticeResponse:
//
//	for w := wire.ErrorFields(body).Walk(); w.Next(); { use(w.Field(), w.Value()) }
//
// Well reports after the walk whether the body was well formed.
type ErrorFields []byte

// ErrorWalk is a walk over error fields.
type ErrorWalk struct {
	rest  body
	value []byte
	field byte
	well  bool
}

// Walk starts a walk.
func (f ErrorFields) Walk() ErrorWalk { return ErrorWalk{rest: body(f)} }

// Next goes to the next field.
func (w *ErrorWalk) Next() bool {
	var ok bool
	if w.field, ok = w.rest.byte(); !ok {
		return false
	}
	if w.field == 0 {
		w.well = len(w.rest) == 0
		w.rest = nil
		return false
	}
	w.value, ok = w.rest.cstring()
	return ok
}

// Field is the type of the current field.
func (w *ErrorWalk) Field() byte { return w.field }

// Value is the text of the current field; it aliases the body.
func (w *ErrorWalk) Value() []byte { return w.value }

// Well reports, once Next has returned false, whether the body was well formed to its end.
func (w *ErrorWalk) Well() bool { return w.well }

// Get is the value of the first field of that type; ok is false when there is none.
func (f ErrorFields) Get(field byte) (value []byte, ok bool) {
	for w := f.Walk(); w.Next(); {
		if w.Field() == field {
			return w.Value(), true
		}
	}
	return nil, false
}

// Error is an error for a client, in the fields of PostgreSQL's ErrorResponse. Empty fields are left out.
type Error struct {
	Severity string // ERROR or FATAL
	Code     string
	Message  string
	Detail   string
	Hint     string
	Position int // in characters, from 1; 0 for none
}

// AppendError appends an ErrorResponse message.
func AppendError(dst []byte, e *Error) []byte {
	m := pgproto3.ErrorResponse{
		Severity:            e.Severity,
		SeverityUnlocalized: e.Severity,
		Code:                e.Code,
		Message:             e.Message,
		Detail:              e.Detail,
		Hint:                e.Hint,
		Position:            int32(e.Position),
	}
	return must(m.Encode(dst))
}

// ErrorEdit says what of an error is changed on its way to the client. Empty fields keep what is there.
type ErrorEdit struct {
	Severity string
	Code     string
	Message  string
	Detail   string
	Hint     string
	Position int // > 0 replaces the position where there is one, DropPosition removes it
}

// DropPosition as ErrorEdit.Position removes the position.
const DropPosition = -1

// AppendEditedError appends the ErrorResponse (or NoticeResponse, by typ) with the given body, changed by edit. Fields
// keep their order; those that edit adds come last. ok is false, and dst unchanged, when body is malformed.
func AppendEditedError(dst []byte, typ byte, fields ErrorFields, edit ErrorEdit) (out []byte, ok bool) {
	out = append(dst, typ, 0, 0, 0, 0)
	w := fields.Walk()
	for w.Next() {
		v, replaced := edit.take(w.Field())
		switch {
		case w.Field() == FieldPosition && edit.Position == DropPosition:
			continue
		case w.Field() == FieldPosition && edit.Position > 0:
			out = strconv.AppendInt(append(out, FieldPosition), int64(edit.Position), 10)
			out = append(out, 0)
			continue
		case replaced:
			out = appendField(out, w.Field(), v)
			continue
		}
		out = append(append(out, w.Field()), w.Value()...)
		out = append(out, 0)
	}
	if !w.Well() {
		return dst, false
	}
	for _, f := range [...]byte{FieldCode, FieldMessage, FieldDetail, FieldHint} {
		if v, left := edit.take(f); left {
			out = appendField(out, f, v)
		}
	}
	return finish(append(out, 0), len(dst)), true
}

// take hands out the new text of a field. The texts of single fields are handed out once; a severity stands in two.
func (e *ErrorEdit) take(field byte) (v string, ok bool) {
	var at *string
	switch field {
	case FieldSeverity, FieldSeverityRaw:
		return e.Severity, e.Severity != ""
	case FieldCode:
		at = &e.Code
	case FieldMessage:
		at = &e.Message
	case FieldDetail:
		at = &e.Detail
	case FieldHint:
		at = &e.Hint
	default:
		return "", false
	}
	v, *at = *at, ""
	return v, v != ""
}

func appendField(dst []byte, field byte, v string) []byte {
	dst = append(append(dst, field), v...)
	return append(dst, 0)
}
