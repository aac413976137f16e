package pgfence

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// row, rows and batch note errors that come with the results.
type row struct {
	pgx.Row
	guarded
}

func (r row) Scan(dest ...any) error { return r.note(r.Row.Scan(dest...)) }

type rows struct {
	pgx.Rows
	guarded
}

func (r rows) Err() error { return r.note(r.Rows.Err()) }

type batch struct {
	pgx.BatchResults
	guarded
}

func (b batch) Exec() (pgconn.CommandTag, error) {
	tag, err := b.BatchResults.Exec()
	return tag, b.note(err)
}

func (b batch) Query() (pgx.Rows, error) {
	r, err := b.BatchResults.Query()
	return rows{r, b.guarded}, b.note(err)
}

func (b batch) QueryRow() pgx.Row { return row{b.BatchResults.QueryRow(), b.guarded} }

func (b batch) Close() error { return b.note(b.BatchResults.Close()) }

// failed is the result of what was not asked.
type failed struct {
	pgx.Rows // of which nothing else is called before Err or Scan
	err      error
}

func (f failed) Err() error                                   { return f.err }
func (f failed) Scan(...any) error                            { return f.err }
func (f failed) Next() bool                                   { return false }
func (f failed) Close()                                       {}
func (f failed) Values() ([]any, error)                       { return nil, f.err }
func (f failed) RawValues() [][]byte                          { return nil }
func (f failed) Conn() *pgx.Conn                              { return nil }
func (f failed) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (f failed) FieldDescriptions() []pgconn.FieldDescription { return nil }

type failedBatch struct{ err error }

func (f failedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }
func (f failedBatch) Query() (pgx.Rows, error)         { return failed{err: f.err}, f.err }
func (f failedBatch) QueryRow() pgx.Row                { return failed{err: f.err} }
func (f failedBatch) Close() error                     { return f.err }
func (f failedBatch) Tx() pgx.Tx                       { return nil }
