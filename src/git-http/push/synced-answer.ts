import { Transform } from 'node:stream'
import { LENGTH_DIGITS, lengthAt } from './pkt-line.ts'

const PROGRESS = 2
const BUFFERED = 64 * 1024

/**
 * Returns a stream that passes on the answer of `git receive-pack` and delays its report until `sync` has completed. So no
 * push is acknowledged that a power cut can undo. Progress and keep-alive packets are passed on at once.
 *
 * git sends the report after it has moved all objects and refs into place (builtin/receive-pack.c), so one sync before its
 * first byte is enough and the report need not be buffered. Only a garbage collection can follow; its progress comes after
 * the report.
 *
 * The answer consists of packets (gitprotocol-common(5), "pkt-line format"): the length in four hexadecimal digits, then the
 * content. With the capability `side-band-64k` the content begins with a channel: 1 for the report, 2 for progress, 3 for an
 * error. Without it, no content begins with such a byte.
 */
export function syncBeforeReport(sync: () => Promise<void>): Transform {
  let rest = Buffer.alloc(0)
  let synced = false
  return new Transform({
    highWaterMark: BUFFERED,
    transform(chunk: Buffer, _encoding, done) {
      if (synced) return done(null, chunk)
      rest = Buffer.concat([rest, chunk])
      const { end, report } = readProgress(rest)
      this.push(rest.subarray(0, end))
      rest = rest.subarray(end)
      if (!report) return done()
      synced = true
      sync().then(() => done(null, rest), done)
    },
    flush(done) {
      if (synced) return done()
      sync().then(() => done(null, rest), done)
    },
  })
}

/**
 * Returns a stream that passes on the list of refs at the start of a push and delays its end until `sync` has completed. If
 * the list already contains the refs to push, the client reports "Everything up-to-date", which is an acknowledgement too.
 */
export function syncBeforeEnd(sync: () => Promise<void>): Transform {
  let rest = Buffer.alloc(0)
  return new Transform({
    highWaterMark: BUFFERED,
    transform(chunk: Buffer, _encoding, done) {
      const bytes = Buffer.concat([rest, chunk])
      // The empty packet `0000` ends the list.
      const end = Math.max(0, bytes.length - LENGTH_DIGITS)
      rest = bytes.subarray(end)
      done(null, bytes.subarray(0, end))
    },
    flush(done) {
      sync().then(() => done(null, rest), done)
    },
  })
}

/** Returns the end of the complete progress packets at the start of `bytes`, and whether a report follows. */
function readProgress(bytes: Buffer): { end: number; report: boolean } {
  for (let end = 0; ; ) {
    const channel = bytes[end + LENGTH_DIGITS]
    const length = lengthAt(bytes, end)
    if (channel === undefined || length === null) return { end, report: false }
    const isEmpty = length === LENGTH_DIGITS + 1 && channel === 1
    if (!(length > LENGTH_DIGITS) || !(channel === PROGRESS || isEmpty)) return { end, report: true }
    if (end + length > bytes.length) return { end, report: false }
    end += length
  }
}
