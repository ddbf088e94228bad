import { chmodSync, chownSync, copyFileSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { sql } from 'kysely'
import { Client } from 'pg'
import t from 'tap'
import { readConfig } from '../../../src/config.ts'
import { StoreUnavailable } from '../../../src/store/engine.ts'
import { openStore } from '../../../src/store/store.ts'
import { openTestStore, postgres } from '../../helpers/databases.ts'

const certificates = resolve(import.meta.dirname, '../../../clients/typescript/test/fixtures/certificates')
const CA = join(certificates, 'ca.pem')
/**
 * The certificate of the server, for 127.0.0.1, and its key. It is the one of a client too: of the
 * user who is its subject.
 */
const SERVER = join(certificates, 'server.pem')
const USER = 'test server'

t.test('PostgreSQL is reached over TLS, as its URL says', async (t) => {
  const { options } = await openTestStore(t, postgres)
  const url = new URL(options.databaseUrl ?? '')
  const admin = new Client({ connectionString: url.href })
  await admin.connect()
  t.teardown(() => admin.end())
  const [{ data_directory: folder }] = (await admin.query('show data_directory')).rows
  const [{ hba_file: access }] = (await admin.query('show hba_file')).rows
  const rules = readFileSync(access, 'utf8')
  const { uid, gid } = statSync(folder)
  for (const [file, name] of [
    [SERVER, 'server.crt'],
    [SERVER, 'server.key'],
    [CA, 'root.crt'],
  ] as const) {
    copyFileSync(file, join(folder, name))
    chownSync(join(folder, name), uid, gid)
    chmodSync(join(folder, name), 0o600)
    t.teardown(() => rmSync(join(folder, name)))
  }
  const configure = async (statements: string[], rules: string) => {
    writeFileSync(access, rules)
    for (const statement of [...statements, 'select pg_reload_conf()']) await admin.query(statement)
  }
  await admin.query(`create role "${USER}" superuser login`)
  await configure(
    ["alter system set ssl_ca_file = 'root.crt'", 'alter system set ssl = on'],
    `hostssl all "${USER}" 127.0.0.1/32 cert\n${rules}`,
  )
  t.teardown(async () => {
    await configure(
      ['ssl', 'ssl_ca_file'].map((name) => `alter system reset ${name}`),
      rules,
    )
    await admin.query(`drop role "${USER}"`)
  })
  const connect = async (parameters: Record<string, string>, change: Partial<URL> = {}) => {
    const asked = Object.assign(new URL(url), change)
    for (const [name, value] of Object.entries(parameters)) asked.searchParams.set(name, value)
    const { databaseUrl, ...config } = readConfig({ DATABASE_URL: asked.href, DATA_DIR: options.dataDir })
    const store = await openStore({ ...config, databaseUrl })
    try {
      const own = sql`select ssl, client_dn from pg_stat_ssl where pid = pg_backend_pid()`
      const { rows } = await own.execute(store.engine.kysely)
      return rows[0]
    } finally {
      await store.close()
    }
  }
  // A reload takes a moment.
  while (!(await connect({ sslmode: 'verify-full', sslrootcert: CA }).catch(() => null)));
  t.same(await connect({}), { ssl: false, client_dn: null })
  t.same(await connect({ sslmode: 'verify-full', sslrootcert: CA }), { ssl: true, client_dn: null })
  const untrusted = { sslmode: 'verify-full' }
  await t.rejects(connect({ sslmode: 'require' }), {
    name: 'StoreUnavailable',
    message: /certificate.*also with sslmode=require: its CA can be named with sslrootcert=FILE/,
  })
  await t.rejects(connect(untrusted), StoreUnavailable, 'a CA that the system does not know')
  await t.rejects(
    connect({ ...untrusted, sslrootcert: CA }, { hostname: 'localhost' }),
    StoreUnavailable,
    'the certificate of another host',
  )
  const asClient = { sslmode: 'verify-full', sslrootcert: CA, sslcert: SERVER, sslkey: SERVER }
  const found = await connect(asClient, { username: USER, password: '' })
  t.same(found, { ssl: true, client_dn: `/CN=${USER}` })
  await t.rejects(
    connect({ ...untrusted, sslrootcert: CA }, { username: USER, password: '' }),
    StoreUnavailable,
  )
  for (const name of ['sslrootcert', 'sslcert', 'sslkey'])
    t.throws(
      () => readConfig({ DATABASE_URL: `${url.href}?${name}=/nowhere/x.pem` }),
      { name: 'ConfigError', message: /^DATABASE_URL: ENOENT: .*'\/nowhere\/x\.pem'$/ },
      name,
    )
})
