import Sqlite from 'better-sqlite3'
import Fastify from 'fastify'

/**
 * A minimal server: Fastify, better-sqlite3, and one select.
 *
 * argv: database file
 */
const db = new Sqlite(process.argv[2] ?? '')
const select = db.prepare('select name from repositories limit 1')
const app = Fastify()
app.get('/*', () => select.get())
process.stdout.write(`Listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}\n`)
process.once('SIGTERM', () => process.exit(0))
