package wire

import "testing"

func TestAppendEditedError(t *testing.T) {
	const in = "SERROR\x00VERROR\x00C42601\x00Mold\x00P17\x00Xunknown\x00\x00"
	for _, c := range []struct {
		name string
		edit ErrorEdit
		want string
	}{
		{"nothing", ErrorEdit{}, in},
		{"severity", ErrorEdit{Severity: "FATAL"}, "SFATAL\x00VFATAL\x00C42601\x00Mold\x00P17\x00Xunknown\x00\x00"},
		{"position", ErrorEdit{Position: 4}, "SERROR\x00VERROR\x00C42601\x00Mold\x00P4\x00Xunknown\x00\x00"},
		{"drop position", ErrorEdit{Position: DropPosition}, "SERROR\x00VERROR\x00C42601\x00Mold\x00Xunknown\x00\x00"},
		{"all", ErrorEdit{Severity: "FATAL", Code: "ZF001", Message: "new", Detail: "d", Hint: "h", Position: DropPosition},
			"SFATAL\x00VFATAL\x00CZF001\x00Mnew\x00Xunknown\x00Dd\x00Hh\x00\x00"},
	} {
		out, ok := AppendEditedError([]byte("before"), 'N', ErrorFields(in), c.edit)
		if !ok || string(out[:6]) != "before" || string(out[6+HeaderLen:]) != c.want {
			t.Errorf("%s: %v %q", c.name, ok, out)
			continue
		}
		if typ, size, ok := Frame(out[6:]); typ != 'N' || !ok || size != len(out)-6 {
			t.Errorf("%s: frame %c %d", c.name, typ, size)
		}
	}
	if out, ok := AppendEditedError([]byte("before"), 'E', ErrorFields("SERROR\x00"), ErrorEdit{}); ok || string(out) != "before" {
		t.Errorf("malformed: %q %v", out, ok)
	}
	// a position that is not there is not added
	if out, _ := AppendEditedError(nil, 'E', ErrorFields("Mm\x00\x00"), ErrorEdit{Position: 3}); string(out[HeaderLen:]) != "Mm\x00\x00" {
		t.Errorf("position added: %q", out)
	}
}

func TestChars(t *testing.T) {
	for _, c := range []struct {
		text, encoding string
		n              int
		ok             bool
	}{
		{"abc", "UTF8", 3, true}, {"é", "UTF8", 1, true}, {"a\u20acb\U0001f600", "UTF8", 4, true}, {"\xff\xe2", "UTF8", 2, true},
		{"\xe9", "LATIN1", 1, true}, {"\xa4\xa2\x8e\xb1\x8f\xb0\xa1x", "EUC_JP", 4, true}, {"\x8e\xa2\xa1\xa1x", "EUC_TW", 2, true},
		{"\x81\x40", "SJIS", 2, false}, {"abc", "SJIS", 3, true}, {"\xb0\xa1", "EUC_KR", 1, true},
	} {
		if n, ok := Chars([]byte(c.text), c.encoding); n != c.n || ok != c.ok {
			t.Errorf("%q %s: %d %v", c.text, c.encoding, n, ok)
		}
	}
}
