import t from 'tap'
import { isExceptedBy } from '../../src/cli/proxy.ts'

t.test('NO_PROXY excepts hosts as curl does', async (t) => {
  const rows: [list: string, excepted: string[], others: string[]][] = [
    ['*', ['http://a.example', 'https://[::1]:3000'], []],
    ['', [], ['http://a.example', 'http://10.0.0.1']],
    [' , ,', [], ['http://a.example', 'http://10.0.0.1']],
    [
      'example.org',
      ['https://example.org', 'https://status.example.org:8443'],
      ['https://badexample.org', 'https://example.org.evil'],
    ],
    ['.example.org', ['https://example.org', 'https://a.b.example.org'], ['https://badexample.org']],
    ['*.example.org', ['https://status.example.org'], ['https://example.com']],
    ['EXAMPLE.org.', ['https://Status.Example.ORG', 'https://example.org.'], []],
    ['a, b.example  c', ['http://a', 'http://b.example', 'http://c'], ['http://d']],
    ['status.example.org:8443', ['https://status.example.org:8443'], ['https://status.example.org']],
    ['example.org:443,example.com:80', ['https://example.org', 'http://example.com'], ['http://example.org']],
    ['10.1.2.3', ['http://10.1.2.3:3000'], ['http://10.1.2.4', 'http://10.1.2.3.example']],
    ['10.0.0.0/8', ['http://10.1.2.3', 'https://10.255.0.1:8443'], ['http://11.0.0.1', 'http://10.example']],
    ['192.168.4.0/22:3000', ['http://192.168.7.9:3000'], ['http://192.168.7.9', 'http://192.168.8.1:3000']],
    ['10.1.2.3:3000', ['http://10.1.2.3:3000'], ['http://10.1.2.3']],
    ['127.0.0.1/32', ['http://127.0.0.1'], ['http://127.0.0.2']],
    ['10.0.0.0/0', ['http://192.0.2.1'], ['http://[2001:db8::1]', 'http://a.example']],
    ['::1', ['http://[::1]:3000'], ['http://[::2]']],
    ['[::1]', ['http://[::1]'], ['http://[::2]']],
    ['[::1]:3000', ['http://[::1]:3000'], ['http://[::1]:3001']],
    ['2001:DB8:0:0::1', ['http://[2001:db8::1]'], []],
    ['fd00::/8', ['http://[fd12:3456::1]'], ['http://[fe80::1]', 'http://10.0.0.1']],
    ['[fd00::]/8:3000', ['http://[fd12::1]:3000'], ['http://[fd12::1]']],
    ['10.0.0.0/33,10.0.0.0/x,:80,/8', [], ['http://10.0.0.1', 'http://a.example']],
  ]
  for (const [list, excepted, others] of rows) {
    for (const url of excepted) t.ok(isExceptedBy(list, new URL(url)), `${list} excepts ${url}`)
    for (const url of others) t.notOk(isExceptedBy(list, new URL(url)), `${list} does not except ${url}`)
  }
})
