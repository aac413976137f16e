// The program of package drivers for node-postgres. Address, database and user come from the environment.
import { pipeline as stream } from 'node:stream/promises'
import { Readable } from 'node:stream'
import pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { report, until } from './report.mjs'

const insert = 'INSERT INTO ledger (note) VALUES ($1)'

const connect = async (config = {}) => {
  const client = new pg.Client(config)
  await client.connect()
  return client
}
const value = async (client, sql) => Object.values((await client.query(sql)).rows[0])[0]
const copyIn = (client, note) =>
  stream(Readable.from([`${note}\n`, `${note}\n`]), client.query(copyFrom('COPY ledger (note) FROM STDIN')))

// With pipeline: true, a client sends its queries without waiting for replies.
const pipeline = (client, note) =>
  Promise.all([client.query('SELECT 1'), client.query(insert, [note]), client.query('SELECT 2')])

const bare = await connect()
await report('no token', () => bare.query(insert, ['no token']))
await bare.query("SET fence.token = '10'")
await report('token by SET', () => bare.query(insert, ['token by SET']))

const old = await connect({ options: '-c fence.token=10' })
const piped = await connect({ options: '-c fence.token=10', pipeline: true })
console.log('token at connect:', await value(old, "SELECT current_setting('fence.token')"))
await report('write', () => old.query("INSERT INTO ledger (note) VALUES ('write')"))
const named = (note) => ({ name: 'write', text: insert, values: [note] })
await report('prepared write', async () => {
  for (let i = 0; i < 3; i++) await old.query(named('prepared write'))
})
await report('commit', async () => {
  await old.query('BEGIN')
  await old.query(insert, ['commit'])
  await old.query('COMMIT')
})
await report('rollback', async () => {
  await old.query('BEGIN')
  await old.query(insert, ['rollback'])
  await old.query('ROLLBACK')
})
await report('copy in', () => copyIn(old, 'copy in'))
for await (const row of old.query(copyTo("COPY (SELECT note FROM ledger WHERE note = 'write') TO STDOUT"))) {
  console.log('copy out:', row.toString().trim())
}
await report('pipeline', () => pipeline(piped, 'pipeline'))
await report('cancel', () => {
  const sleep = new pg.Query('SELECT pg_sleep(30)')
  const ended = new Promise((resolve, reject) => sleep.on('end', resolve).on('error', reject))
  old.query(sleep)
  return until(ended, () => new pg.Client().cancel(old, sleep))
})

const next = await connect({ options: '-c fence.token=20' })
console.log('takeover:', await value(next, "SELECT current_setting('fence.token')"))

await report('stale write', () => old.query("INSERT INTO ledger (note) VALUES ('stale write')"))
await report('stale prepared write', () => old.query(named('stale prepared write')))
await old.query('BEGIN')
await report('stale transaction', () => old.query(insert, ['stale transaction']))
await report('behind the refusal', () => old.query('SELECT 1'))
await old.query('ROLLBACK')
await report('stale copy in', () => copyIn(old, 'stale copy in'))
await report('stale pipeline', () => pipeline(piped, 'stale pipeline'))
await report('stale SET', async () => (await connect()).query("SET fence.token = '15'"))
await report('stale connect', () => connect({ options: '-c fence.token=15' }))
console.log('usable after refusal:', await value(old, 'SELECT 42'))
await report("new holder's write", () => next.query(insert, ["new holder's write"]))
process.exit()
