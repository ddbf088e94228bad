import t from 'tap'
import { addressKey, findClient, isTrusted, parseCidr } from '../../src/http/address.ts'

t.test('addressKey', async (t) => {
  const rows = [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:c000:0201', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
    ['2001:db8:1:2:ffff:ffff:ffff:ffff', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
    ['::1', '::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['', 'unknown'],
    ['nonsense', 'unknown'],
  ] as const
  for (const [address, key] of rows) t.equal(addressKey(address), key, address || 'empty')
})

t.test('findClient', async (t) => {
  const proxies = ['10.0.0.0/8', '192.0.2.1', '2001:db8::/32'].map(parseCidr)
  const rows: [what: string, peer: string, header: string | undefined, client: string][] = [
    ['no header', '10.0.0.1', undefined, '10.0.0.1'],
    ['an empty header', '10.0.0.1', '', '10.0.0.1'],
    ['an untrusted peer', '203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['one proxy', '10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['a proxy as IPv4 in IPv6', '::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['a proxy on IPv6', '2001:db8::7', '2001:0:1::2', '2001:0:1::2'],
    ['past trusted proxies', '10.0.0.1', '198.51.100.1, 10.2.3.4,192.0.2.1', '198.51.100.1'],
    ['entries written by the client itself', '10.0.0.1', '1.1.1.1, 198.51.100.1, 10.2.3.4', '198.51.100.1'],
    ['all trusted: the leftmost', '10.0.0.1', '10.9.9.9, 10.2.3.4', '10.9.9.9'],
    ['an empty entry', '10.0.0.1', '198.51.100.1, , 10.2.3.4', '10.2.3.4'],
    ['with a port', '10.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
    ['ports of trusted proxies', '10.0.0.1', '198.51.100.1:4711, 10.2.3.4:80', '198.51.100.1'],
    ['IPv6 in brackets', '10.0.0.1', '[2001:0:1::2]', '2001:0:1::2'],
    ['IPv6 with a port', '10.0.0.1', '[2001:0:1::2]:443', '2001:0:1::2'],
    ['IPv6 with a zone and a port', '10.0.0.1', '[fe80::1%eth0]:443', 'fe80::1%eth0'],
    ['in quotes', '10.0.0.1', '"198.51.100.1"', '198.51.100.1'],
    ['in quotes with a port', '10.0.0.1', '"198.51.100.1:4711"', '198.51.100.1'],
    ['IPv6 in quotes', '10.0.0.1', '"[2001:0:1::2]:443", "2001:db8::7"', '2001:0:1::2'],
    ['unknown', '10.0.0.1', 'unknown', '10.0.0.1'],
    ['unknown behind a proxy', '10.0.0.1', '198.51.100.1, "Unknown", 10.2.3.4', '10.2.3.4'],
  ]
  const unreadable: [what: string, header: string, hop: string, entry: string][] = [
    ['a word', '198.51.100.1, nonsense, 10.2.3.4', '10.2.3.4', 'nonsense'],
    ['a port without a number', '198.51.100.1:http', '10.0.0.1', '198.51.100.1:http'],
    ['a port that is too long', '198.51.100.1:123456', '10.0.0.1', '198.51.100.1:123456'],
    ['brackets that do not close', '[2001:db8::1', '10.0.0.1', '[2001:db8::1'],
    ['quotes that do not close', '"198.51.100.1', '10.0.0.1', '"198.51.100.1'],
    ['an obfuscated identifier', '_hidden', '10.0.0.1', '_hidden'],
    ['what is long', 'x'.repeat(9_000), '10.0.0.1', 'x'.repeat(64)],
  ]
  for (const [what, header, address, entry] of unreadable)
    t.same(findClient('10.0.0.1', header, proxies), { address, unreadable: entry }, what)
  for (const [what, peer, header, address] of rows)
    t.same(findClient(peer, header, proxies), { address }, what)
  t.same(findClient('10.0.0.1', 'x', []), { address: '10.0.0.1' }, 'no proxy is trusted by default')
})

t.test('parseCidr and isTrusted', async (t) => {
  for (const wrong of ['', 'x', '10.0.0.0/33', '10.0.0.0/', '::/129', '10.0.0.0/-1', 'example.org']) {
    t.throws(() => parseCidr(wrong), wrong)
  }
  const one = [parseCidr('192.0.2.1')]
  t.equal(isTrusted('192.0.2.1', one), true)
  t.equal(isTrusted('192.0.2.2', one), false)
  t.equal(isTrusted('2001:db8::1', one), false)
  t.equal(isTrusted('', one), false)
  t.equal(isTrusted('2001:db8::1', [parseCidr('2001:db8::/64')]), true)
  t.equal(isTrusted('2001:db8:0:1::1', [parseCidr('2001:db8::/64')]), false)
})
