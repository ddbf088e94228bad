import t from 'tap'
import { parseDuration as parseInClient } from '../../clients/typescript/src/cli/duration.ts'
import { parseDuration as parseInServer } from '../../src/util/duration.ts'

t.test('the command lines of server and client read durations alike', async (t) => {
  for (const [text, milliseconds] of [
    ['0s', 0],
    ['90s', 90_000],
    ['10m', 600_000],
    ['01h', 3_600_000],
    ['48h', 172_800_000],
    ['', null],
    ['90', null],
    ['s', null],
    ['90 s', null],
    ['90S', null],
    ['90ms', null],
    ['1h30m', null],
    ['-1s', null],
    ['+1s', null],
    ['1e3s', null],
    [' 1s', null],
    ['1s\n', null],
  ] as const) {
    t.same(parseInServer(text), milliseconds ?? Number.NaN, `server: ${JSON.stringify(text)}`)
    if (milliseconds !== null) t.equal(parseInClient(text, '--timeout'), milliseconds, `client: ${text}`)
    else
      t.throws(() => parseInClient(text, '--timeout'), { message: `--timeout: "${text}" is not a duration` })
  }
})

t.test('only the server knows days, and only the client fractions', async (t) => {
  t.equal(parseInServer('90d'), 7_776_000_000)
  t.throws(() => parseInClient('90d', '--timeout'), /not a duration/)
  t.equal(parseInClient('0.5s', '--timeout'), 500)
  t.same(parseInServer('0.5s'), Number.NaN)
})
