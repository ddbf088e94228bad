import net from 'node:net'
import tls from 'node:tls'
import type { Answer } from './checker.ts'
import { headersOf } from './client.ts'

/** What came back on one connection, until it was quiet or closed. */
export interface Exchange {
  answers: Answer[]
  /** The server has closed the connection, or reset it. */
  closed: boolean
  reset: boolean
  /** Bytes after the last answer that are none. */
  rest: string
}

export interface WireOptions {
  /** How many answers to wait for; then the connection is ended. */
  expect?: number
  /** Milliseconds to wait for them. */
  patience?: number
  /** The client ends its half after the last byte. */
  halfClose?: boolean
}

/** Sends bytes as they are on a connection of its own. */
export function exchange(
  baseUrl: URL,
  parts: readonly (string | Uint8Array)[],
  { expect = 1, patience = 8_000, halfClose = false }: WireOptions = {},
): Promise<Exchange> {
  const secure = baseUrl.protocol === 'https:'
  const host = baseUrl.hostname.replace(/^\[|\]$/g, '')
  const port = Number(baseUrl.port || (secure ? 443 : 80))
  const socket = secure
    ? tls.connect({ host, port, servername: host })
    : net.connect({ host, port, allowHalfOpen: true })
  return new Promise((resolve) => {
    let received = Buffer.alloc(0)
    let closed = false
    let reset = false
    const finish = () => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ ...readAnswers(received), closed, reset })
    }
    const timer = setTimeout(finish, patience)
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      if (readAnswers(received).answers.length >= expect) finish()
    })
    socket.on('error', () => {
      reset = true
      closed = true
    })
    socket.on('end', () => {
      closed = true
      finish()
    })
    socket.on('close', finish)
    for (const part of parts) socket.write(part)
    if (halfClose) socket.end()
  })
}

/** The answers that are complete, and what follows them. */
function readAnswers(bytes: Buffer): { answers: Answer[]; rest: string } {
  const answers: Answer[] = []
  let from = 0
  for (;;) {
    const end = bytes.indexOf('\r\n\r\n', from)
    if (end < 0) break
    const [first = '', ...lines] = bytes.toString('latin1', from, end).split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(`${first} `)?.[1] ?? 0)
    const headers = headersOf(lines.flatMap((line) => /^([^:]+):\s*(.*)$/.exec(line)?.slice(1, 3) ?? []))
    const length = Number(headers.get('content-length') ?? 0)
    const start = end + 4
    if (status < 200 && status > 99) {
      from = start
      continue
    }
    if (bytes.length < start + length) break
    answers.push({ status, headers, body: bytes.toString('utf8', start, start + length) })
    from = start + length
  }
  return { answers, rest: bytes.toString('latin1', from) }
}
