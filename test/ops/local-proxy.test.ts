import { writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { parseCidr } from '../../src/http/address.ts'
import { peopleBesideProxy } from '../../src/ops/local-proxy.ts'
import { otherPeople } from '../../src/util/accounts.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'

t.test('finds the people who can connect as the proxy does', async (t) => {
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  for (const range of [
    '127.0.0.1',
    '127.0.0.9',
    '127.0.0.0/8',
    '::1',
    '0.0.0.0/0',
    ...own.map(({ cidr }) => cidr),
  ])
    t.same(peopleBesideProxy([parseCidr(range ?? '')], ['ann']), ['ann'], range ?? '')
  t.same(peopleBesideProxy([], ['ann']), [])
  t.same(peopleBesideProxy([parseCidr('192.0.2.1'), parseCidr('2001:db8::/64')], ['ann']), [])

  // As in a unit without AF_NETLINK.
  const unlisted = () => {
    throw new Error('uv_interface_addresses returned Unknown system error 97')
  }
  t.same(peopleBesideProxy([parseCidr('127.0.0.1')], ['ann'], unlisted), ['ann'])
  t.same(peopleBesideProxy([parseCidr(own[0]?.address ?? '')], ['ann'], unlisted), ['ann'])
  t.same(peopleBesideProxy([parseCidr('192.0.2.1')], ['ann'], unlisted), [])
})

t.test('people have accounts with a shell and a high id', async (t) => {
  const file = join(temporaryFolder(t), 'passwd')
  writeFileSync(
    file,
    `root:x:0:0:root:/root:/bin/bash
postgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash
ann:x:1000:1000:Ann:/home/ann:/bin/zsh
ci:x:1001:1001::/home/ci:/usr/sbin/nologin
bob:x:1002:1002::/home/bob:
self:x:1003:1003::/home/self:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
broken
`,
  )
  t.same(otherPeople(1003, file), ['ann', 'bob'])
  t.same(otherPeople(1003, join(file, 'none')), [])
})

t.test('the server names them at the start', async (t) => {
  const start = (TRUSTED_PROXIES: string) =>
    startInstance(t, { dataDir: temporaryFolder(t) }, { TRUSTED_PROXIES, LOG_LEVEL: 'warn' })
  const warnings = ({ log }: { log: string[] }) => log.filter((line) => line.includes('TRUSTED_PROXIES'))
  t.equal(warnings(await start('127.0.0.1')).length, otherPeople().length > 0 ? 1 : 0)
  t.same(warnings(await start('192.0.2.1')), [])
})
