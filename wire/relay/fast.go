package relay

import (
	"strconv"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// fastGuard is the fast form for one fence, kept while mark and token stay what they are.
type fastGuard struct {
	raw  string
	mark tokens.Mark
	// lock and read are its two steps: statements of this fence alone when the session's text is nothing but its token,
	// else those that take everything as parameters.
	lock, read reserved
	message    []byte // for the extended protocol: Bind, Execute, Close of the lock, then of the read
	unnamed    []byte // the same by the unnamed portal, without the Closes
	sql        []byte // for a string of the simple protocol, once both are prepared
	pair       reserved
}

// fastGuard is the fast form for a fence whose mark is t.
func (e *Engine) fastGuard(fence int, t tokens.Token) *fastGuard {
	if e.fasts == nil {
		e.fasts = make([]fastGuard, len(e.cfg.Fences))
	}
	f, m := &e.fasts[fence], e.marks[fence]
	if f.message != nil && f.raw == e.token.guess.raw && f.mark == m {
		return f
	}
	*f = fastGuard{raw: e.token.guess.raw, mark: m, pair: f.pair}
	named, alone := tokens.Alone(f.raw, m, e.cfg.Bare)
	if alone && f.pair == 0 {
		f.pair = e.reserved.pair()
	}
	if alone && f.pair != 0 {
		e.prepareFor(f, named)
	} else {
		e.parametrize(f, t)
	}
	return f
}

// prepareFor: the statements hold everything, and there are no parameters.
func (e *Engine) prepareFor(f *fastGuard, named bool) {
	f.lock, f.read = f.pair, f.pair+1
	e.reserved.define(f.lock, string(tokens.AppendLockSQL(nil, f.mark)))
	e.reserved.define(f.read, string(tokens.AppendReadSQL(nil, f.mark, named, e.cfg.Bare)))
	f.message = e.appendRun(nil, f.lock)
	f.message = e.appendRun(f.message, f.read)
	f.unnamed = e.appendUnnamed(nil, f.lock)
	f.unnamed = e.appendUnnamed(f.unnamed, f.read)
	f.sql = append(append(append(f.sql, `EXECUTE "`...), e.reserved.name(f.lock)...), `";EXECUTE "`...)
	f.sql = append(append(f.sql, e.reserved.name(f.read)...), `";`...)
}

// parametrize: what stands in the literals is in the grammar of tokens, or a valid name: there is no quote and no
// backslash in it.
func (e *Engine) parametrize(f *fastGuard, t tokens.Token) {
	f.lock, f.read = reservedLock, reservedRead
	id := strconv.AppendInt(nil, int64(f.mark.ID), 10)
	epoch, counter := strconv.AppendInt(nil, t.Epoch, 10), strconv.AppendInt(nil, t.Counter, 10)
	f.message = e.appendRun(nil, f.lock, id)
	params := [...][]byte{id, []byte(f.mark.Name), []byte(f.raw), epoch, counter, []byte(e.cfg.Bare)}
	f.message = e.appendRun(f.message, f.read, params[:]...)
	f.unnamed = e.appendUnnamed(nil, f.lock, id)
	f.unnamed = e.appendUnnamed(f.unnamed, f.read, params[:]...)
	b := append(append(append([]byte(`EXECUTE "`), e.reserved.name(f.lock)...), `"(`...), id...)
	b = append(append(append(b, `);EXECUTE "`...), e.reserved.name(f.read)...), `"(`...)
	b = append(append(append(b, id...), `,'`...), f.mark.Name...)
	b = append(append(append(b, `','`...), f.raw...), `',`...)
	b = append(append(append(append(b, epoch...), ','), counter...), `,'`...)
	f.sql = append(append(b, e.cfg.Bare...), `');`...)
}

// appendRun appends Bind, Execute and Close of the engine's portal.
func (e *Engine) appendRun(dst []byte, s reserved, params ...[]byte) []byte {
	portal := e.reserved.portal()
	dst = wire.AppendBind(dst, portal, e.reserved.name(s), params...)
	dst = wire.AppendExecute(dst, portal)
	return wire.AppendClose(dst, wire.TargetPortal, portal)
}

// appendUnnamed appends Bind and Execute of the unnamed portal.
func (e *Engine) appendUnnamed(dst []byte, s reserved, params ...[]byte) []byte {
	dst = wire.AppendBind(dst, "", e.reserved.name(s), params...)
	return wire.AppendExecute(dst, "")
}
