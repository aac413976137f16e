# The program of package drivers for Ruby's pg. Address, database and user come from the environment.
require 'pg'

$stdout.sync = true

INSERT = 'INSERT INTO ledger (note) VALUES ($1)'

# Prints the SQLSTATE that a piece of work ends with.
def report(check)
  yield
  puts "#{check}: 00000"
rescue PG::Error => e
  state = e.result&.error_field(PG::PG_DIAG_SQLSTATE)
  puts "#{check}: #{state || e.message[/FATAL:  (.*)/, 1] || e.message}"
end

def connect(options = '')
  PG.connect(options: options)
end

def copy_in(conn, note)
  conn.copy_data('COPY ledger (note) FROM STDIN') { 2.times { conn.put_copy_data("#{note}\n") } }
end

# A query, a write and a query, without waiting for replies.
def pipeline(conn, note)
  conn.enter_pipeline_mode
  conn.send_query_params('SELECT 1', [])
  conn.send_query_params(INSERT, [note])
  conn.send_query_params('SELECT 2', [])
  conn.pipeline_sync
  failed = nil
  loop do
    result = conn.get_result or next
    break if result.result_status == PG::PGRES_PIPELINE_SYNC
    begin
      result.check
    rescue PG::Error => e
      failed ||= e
    end
  end
  conn.exit_pipeline_mode
  raise failed if failed
end

def cancel(conn)
  conn.send_query('SELECT pg_sleep(30)')
  conn.cancel until conn.block(0.05)
  conn.get_last_result
end

bare = connect
report('no token') { bare.exec_params(INSERT, ['no token']) }
bare.exec("SET fence.token = '10'")
report('token by SET') { bare.exec_params(INSERT, ['token by SET']) }

old = connect('-c fence.token=10')
puts "token at connect: #{old.exec("SELECT current_setting('fence.token')").getvalue(0, 0)}"
report('write') { old.exec("INSERT INTO ledger (note) VALUES ('write')") }
old.prepare('write', INSERT)
report('prepared write') { 3.times { old.exec_prepared('write', ['prepared write']) } }
report('commit') { old.transaction { |conn| conn.exec_params(INSERT, ['commit']) } }
old.exec('BEGIN')
old.exec_params(INSERT, ['rollback'])
report('rollback') { old.exec('ROLLBACK') }
report('copy in') { copy_in(old, 'copy in') }
old.copy_data("COPY (SELECT note FROM ledger WHERE note = 'write') TO STDOUT") do
  while (row = old.get_copy_data)
    puts "copy out: #{row}"
  end
end
report('pipeline') { pipeline(old, 'pipeline') }
report('cancel') { cancel(old) }

new = connect('-c fence.token=20')
puts "takeover: #{new.exec("SELECT current_setting('fence.token')").getvalue(0, 0)}"

report('stale write') { old.exec("INSERT INTO ledger (note) VALUES ('stale write')") }
report('stale prepared write') { old.exec_prepared('write', ['stale prepared write']) }
old.exec('BEGIN')
report('stale transaction') { old.exec_params(INSERT, ['stale transaction']) }
report('behind the refusal') { old.exec('SELECT 1') }
old.exec('ROLLBACK')
report('stale copy in') { copy_in(old, 'stale copy in') }
report('stale pipeline') { pipeline(old, 'stale pipeline') }
report('stale SET') { connect.exec("SET fence.token = '15'") }
report('stale connect') { connect('-c fence.token=15') }
puts "usable after refusal: #{old.exec('SELECT 42').getvalue(0, 0)}"
report("new holder's write") { new.exec_params(INSERT, ["new holder's write"]) }
