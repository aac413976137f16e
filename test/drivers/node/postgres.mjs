// The program of package drivers for postgres.js. Address, database and user come from the environment.
import { Readable } from 'node:stream'
import { pipeline as stream } from 'node:stream/promises'
import postgres from 'postgres'
import { report, until } from './report.mjs'

// One session each. `connection` holds parameters of the startup packet.
const connect = (connection = {}) => postgres({ max: 1, connection })
const value = async (sql, text) => Object.values((await sql.unsafe(text))[0])[0]
const write = (sql, note) => sql`INSERT INTO ledger (note) VALUES (${note})` // prepared by the driver, by its text
const copyIn = async (sql, note) =>
  stream(Readable.from([`${note}\n`, `${note}\n`]), await sql`COPY ledger (note) FROM STDIN`.writable())

// Queries of one session are sent without waiting for replies.
const pipeline = (sql, note) => Promise.all([sql`SELECT 1`, write(sql, note), sql`SELECT 2`])

const bare = connect()
await report('no token', () => write(bare, 'no token'))
await bare`SELECT set_config('fence.token', '10', false)`
await report('token by SET', () => write(bare, 'token by SET'))

const old = connect({ 'fence.token': '10' })
console.log('token at connect:', await value(old, "SELECT current_setting('fence.token')"))
await report('write', () => old.unsafe("INSERT INTO ledger (note) VALUES ('write')").simple())
await report('prepared write', async () => {
  for (let i = 0; i < 3; i++) await write(old, 'prepared write')
})
await report('commit', () => old.begin((sql) => write(sql, 'commit')))
await report('rollback', async () => {
  const sql = await old.reserve()
  await sql`BEGIN`
  await write(sql, 'rollback')
  await sql`ROLLBACK`
  sql.release()
})
await report('copy in', () => copyIn(old, 'copy in'))
for await (const row of await old`COPY (SELECT note FROM ledger WHERE note = 'write') TO STDOUT`.readable()) {
  console.log('copy out:', row.toString().trim())
}
await report('pipeline', () => pipeline(old, 'pipeline'))
await report('cancel', () => {
  const sleep = connect()`SELECT pg_sleep(30)`.execute()
  const sleeps = "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND wait_event = 'PgSleep'"
  let asked = false // the driver asks only once
  return until(sleep, async () => {
    if (asked || (await value(old, sleeps)) === '0') return
    asked = true
    sleep.cancel()
  })
})

const next = connect({ options: '-c fence.token=20' }) // the other way to present a token at startup
console.log('takeover:', await value(next, "SELECT current_setting('fence.token')"))

await report('stale write', () => old.unsafe("INSERT INTO ledger (note) VALUES ('stale write')").simple())
await report('stale prepared write', () => write(old, 'stale prepared write'))
const sql = await old.reserve()
await sql`BEGIN`
await report('stale transaction', () => write(sql, 'stale transaction'))
await report('behind the refusal', () => sql`SELECT 1`)
await sql`ROLLBACK`
sql.release()
await report('stale copy in', () => copyIn(old, 'stale copy in'))
await report('stale pipeline', () => pipeline(old, 'stale pipeline'))
await report('stale SET', () => connect().unsafe("SET fence.token = '15'"))
await report('stale connect', () => connect({ 'fence.token': '15' })`SELECT 1`)
console.log('usable after refusal:', await value(old, 'SELECT 42'))
await report("new holder's write", () => write(next, "new holder's write"))
process.exit()
