import { text } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { PushReport, syncBeforeEnd, syncBeforeReport } from '../../../src/git-http/push/report.ts'
import { packet } from '../raw.ts'

const progress = (text: string) => packet(`\x02${text}`)
const ADVICE = progress('push elsewhere')
const KEEP_ALIVE = packet('\x01')
const REPORT = packet(`\x01${packet('unpack ok\n')}${packet('ok refs/heads/main\n')}0000`)

/** Creates one of the two streams with a sync that the test completes, and collects its output. */
async function follow(isReport: boolean, advice = '') {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let waits = false
  let output = ''
  let ended = false
  const sync = () => {
    waits = true
    return promise
  }
  const report = new PushReport([])
  const stream = isReport
    ? syncBeforeReport({ report, sync, advice: Buffer.from(advice, 'latin1') }, () => null)
    : syncBeforeEnd(sync)
  const closed = new Promise<Error | undefined>((done) => {
    stream.on('error', done).on('end', () => {
      ended = true
      done(undefined)
    })
  })
  stream.setEncoding('latin1').on('data', (text: string) => {
    output += text
  })
  return {
    resolve,
    reject,
    closed,
    end: () => stream.end(),
    async write(text: string) {
      const bytes = Buffer.from(text, 'latin1')
      report.read(bytes)
      stream.write(bytes)
      for (let turn = 0; turn < 5; turn++) await setImmediate()
    },
    state: () => ({ waits, output, ended }),
  }
}

t.test('progress is passed on at once, the report after the sync', async (t) => {
  const { write, state, resolve, closed, end } = await follow(true)
  const begin = progress('Unpacking') + KEEP_ALIVE + progress('...')
  await write(begin)
  t.same(state(), { waits: false, output: begin, ended: false })
  await write(REPORT + progress('Collecting garbage'))
  t.same(state(), { waits: true, output: begin, ended: false })
  resolve()
  await write(`${progress('more')}0000`)
  end()
  t.equal(await closed, undefined)
  const output = `${begin}${REPORT}${progress('Collecting garbage')}${progress('more')}0000`
  t.same(state(), { waits: true, output, ended: true })
})

t.test('advice comes just before the report, also if that was read ahead', async (t) => {
  const report = new PushReport([])
  const push = { report, sync: async () => {}, advice: Buffer.from(ADVICE, 'latin1') }
  const stream = syncBeforeReport(push, () => null)
  const begin = progress('Unpacking')
  const parts = [begin.slice(0, 7), begin.slice(7) + REPORT].map((part) => Buffer.from(part, 'latin1'))
  for (const part of parts) report.read(part)
  for (const part of parts) stream.write(part)
  stream.end()
  t.equal(await text(stream.setEncoding('latin1')), begin + ADVICE + REPORT)
})

t.test('every other end of a push waits for the sync too', async (t) => {
  const bodies = {
    'a report without side-band': `${packet('unpack ok\n')}0000`,
    'no report': '0000',
    'nothing at all': '',
    'an error': packet('\x03fatal: disk full'),
    'no packets': 'fatal: \x02 something else',
  }
  for (const [what, body] of Object.entries(bodies)) {
    const { write, state, resolve, closed, end } = await follow(true)
    await write(body)
    end()
    await setImmediate()
    t.same(state(), { waits: true, output: '', ended: false }, what)
    resolve()
    t.equal(await closed, undefined)
    t.same(state(), { waits: true, output: body, ended: true }, what)
  }
})

t.test('the end of the list of refs waits for the sync', async (t) => {
  const { write, state, resolve, closed, end } = await follow(false)
  await write(packet('# service=git-receive-pack\n'))
  await write(`0000${packet(`${'1'.repeat(40)} refs/heads/main`)}00`)
  await write('00')
  end()
  await setImmediate()
  const { output, waits, ended } = state()
  t.same([waits, ended], [true, false])
  t.notMatch(output, /0000$/)
  resolve()
  t.equal(await closed, undefined)
  t.match(state().output, /main0000$/)
})

t.test('a failed sync cuts off the answer', async (t) => {
  for (const isReport of [true, false]) {
    const { write, state, reject, closed, end } = await follow(isReport)
    await write(progress('Unpacking') + REPORT)
    end()
    reject(new Error('EIO'))
    t.match(await closed, { message: 'EIO' })
    t.notMatch(state().output, REPORT)
    t.notOk(state().ended)
  }
})

t.test('chunks of any size are handled, and advice comes just before the report', async () => {
  const part = fc.oneof(
    fc.string({ unit: 'binary-ascii', maxLength: 40 }).map(progress),
    fc.constant(KEEP_ALIVE),
  )
  const size = fc.integer({ min: 1, max: 60 })
  await fc.assert(
    fc.asyncProperty(fc.array(part), fc.array(part), fc.array(size), async (before, after, sizes) => {
      const bytes = `${before.join('')}${REPORT}${after.join('')}0000`
      const { write, state, resolve, closed, end } = await follow(true, ADVICE)
      let from = 0
      for (const size of [...sizes, bytes.length]) {
        await write(bytes.slice(from, from + size))
        from += size
      }
      end()
      const early = state()
      resolve()
      await closed
      // Part of a packet acknowledges nothing.
      const isHeld = early.output.length < before.join('').length + REPORT.length
      const whole = `${before.join('')}${ADVICE}${REPORT}${after.join('')}0000`
      return isHeld && early.waits && state().output === whole
    }),
    { numRuns: 200 },
  )
})
