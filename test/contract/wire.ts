import net from 'node:net'
import tls from 'node:tls'
import type { Answer } from './checker.ts'
import { headersOf } from './client.ts'

/** The answers on one connection. */
export interface Exchange {
  answers: Answer[]
  /** The server closed or reset the connection. */
  closed: boolean
  reset: boolean
  /** Bytes after the last complete answer. */
  rest: string
}

export interface WireOptions {
  /** Answers to wait for before closing the connection. */
  expect?: number
  /** Milliseconds to wait for them. */
  timeout?: number
  /** Whether the client closes its side after the last byte. */
  halfClose?: boolean
}

/** Sends raw bytes on a new connection and reads the answers. */
export function exchange(
  baseUrl: URL,
  parts: readonly (string | Uint8Array)[],
  { expect = 1, timeout = 8_000, halfClose = false }: WireOptions = {},
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
    const timer = setTimeout(finish, timeout)
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

/** Splits bytes into complete answers and the rest. */
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
