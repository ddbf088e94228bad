import t from 'tap'
import { addressKey, clientAddress, isTrusted, parseCidr } from '../../src/http/address.ts'

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

t.test('clientAddress', async (t) => {
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
    ['malformed: the hop before it', '10.0.0.1', '198.51.100.1, nonsense, 10.2.3.4', '10.2.3.4'],
    ['an empty entry', '10.0.0.1', '198.51.100.1, , 10.2.3.4', '10.2.3.4'],
    ['with a port: malformed', '10.0.0.1', '198.51.100.1:4711', '10.0.0.1'],
    ['unknown', '10.0.0.1', 'unknown', '10.0.0.1'],
  ]
  for (const [what, peer, header, client] of rows) t.equal(clientAddress(peer, header, proxies), client, what)
  t.equal(clientAddress('10.0.0.1', '198.51.100.1', []), '10.0.0.1', 'no proxy is trusted by default')
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
