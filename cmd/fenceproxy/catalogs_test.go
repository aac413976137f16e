package main

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// I5: columns may be swapped by the DDL that was seen, so nobody is told them before the next look.
func TestI5ColumnsOutrunByDDL(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, "CREATE TABLE work (id int, tok bigint)")
	w, err := catalog.NewWatcher(catalog.WatcherConfig{DSN: dsn, Every: time.Hour,
		Fences: []catalog.Fence{{Name: "work", Tables: []catalog.Pattern{{Table: "work"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	d := w.Database(db)
	<-d.Settled()
	columns := &tableColumns{d.Snapshot, d.Current}
	table, ok := columns.Table("", "work")
	before := columns.Generation()
	if !ok || len(table.Columns) != 2 || table.Types[1] != "bigint" {
		t.Fatalf("%+v %v", table, ok)
	}
	lock := c.Connect(t, db, "postgres")
	if _, err := lock.Exec(t.Context(), "BEGIN; LOCK pg_catalog.pg_class IN ACCESS EXCLUSIVE MODE"); err != nil { // no look ends
		t.Fatal(err)
	}
	d.Outdate()
	if table, ok := columns.Table("", "work"); !ok || len(table.Columns) != 0 || columns.Generation() == before {
		t.Errorf("outdated: %+v %v, generation %d and %d", table, ok, columns.Generation(), before)
	}
	if _, err := lock.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !d.Current(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no look")
		}
	}
	if table, ok := columns.Table("", "work"); !ok || len(table.Columns) != 2 || columns.Generation() != before {
		t.Errorf("looked again: %+v %v, generation %d and %d", table, ok, columns.Generation(), before)
	}
	if _, ok := columns.Table("", "elsewhere"); ok {
		t.Error("a table that is not there")
	}
}
