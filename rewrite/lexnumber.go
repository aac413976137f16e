package rewrite

// lexNumberToken reads a number as PostgreSQL 16 and newer do; older servers know neither other bases nor underscores.
// A letter behind a number is an error since 15 and an alias before: a failure here.
func lexNumberToken(sql []byte, i int) (token, lexFailure) {
	e, kind, ok := numberEnd(sql, i)
	if !ok || e < len(sql) && class[sql[e]]&clsWordStart != 0 {
		return token{}, lexNumber
	}
	return token{int32(i), int32(e), kind, sql[i]}, ""
}

func numberEnd(sql []byte, i int) (end int, kind tokenKind, ok bool) {
	at := func(j int) byte {
		if j < len(sql) {
			return sql[j]
		}
		return 0
	}
	if at(i) == '0' {
		switch at(i+1) | 0x20 {
		case 'x', 'o', 'b':
			e := basedEnd(sql, i+2, at(i+1)|0x20)
			return e, otherInt, e > i+2 && class[at(e)]&clsDigit == 0
		}
	}
	e, under := decimalEnd(sql, i)
	kind = litInt
	if at(e) == '.' && at(e+1) != '.' {
		kind = litFloat
		var u bool
		e, u = decimalEnd(sql, e+1)
		under = under || u
	}
	if at(e)|0x20 == 'e' {
		j := e + 1
		if at(j) == '+' || at(j) == '-' {
			j++
		}
		if class[at(j)]&clsDigit == 0 {
			return 0, 0, false // realfail, integer_junk
		}
		kind = litFloat
		var u bool
		e, u = decimalEnd(sql, j)
		under = under || u
	}
	switch {
	case under:
		kind = otherInt
	case kind == litInt && !fitsInt4(sql[i:e]):
		kind = litFloat
	}
	return e, kind, true
}

// decimalEnd returns the end of decdigit(_?decdigit)* at i.
func decimalEnd(sql []byte, i int) (end int, under bool) {
	for s := i; i < len(sql); i++ {
		if class[sql[i]]&clsDigit != 0 {
			continue
		}
		if sql[i] != '_' || i == s || sql[i-1] == '_' || i+1 >= len(sql) || class[sql[i+1]]&clsDigit == 0 {
			break
		}
		under = true
	}
	return i, under
}

// basedEnd returns the end of (_?digit)+ at i for the base letter x, o or b.
func basedEnd(sql []byte, i int, base byte) int {
	digit := func(j int) bool {
		if j >= len(sql) {
			return false
		}
		c := sql[j]
		switch base {
		case 'o':
			return c >= '0' && c <= '7'
		case 'b':
			return c == '0' || c == '1'
		}
		return class[c]&clsDigit != 0 || c|0x20 >= 'a' && c|0x20 <= 'f'
	}
	for digit(i) || i < len(sql) && sql[i] == '_' && digit(i+1) {
		i++
	}
	return i
}

// fitsInt4 reports whether decimal digits are at most 2147483647 (scan.l process_integer_literal).
func fitsInt4(digits []byte) bool {
	v := 0
	for _, c := range digits {
		if v = v*10 + int(c-'0'); v > 1<<31-1 {
			return false
		}
	}
	return true
}
