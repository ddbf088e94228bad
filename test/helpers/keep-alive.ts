import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** The answer to a request and the time it took. */
export interface TimedAnswer {
  status: number
  /** Size of the body on the wire. */
  bytes: number
  /** Milliseconds from the call that wrote the request to the last byte of the answer. */
  time: number
}

/**
 * A client with little overhead of its own, so that timings reflect the server: one connection, one
 * request at a time, requests as prepared bytes. Supports answers with a `Content-Length`, chunked
 * answers, and answers without a body.
 */
export class KeepAliveClient {
  readonly #socket: Socket
  #waiting: { start: number; resolve(answer: TimedAnswer): void; reject(error: Error): void } | undefined
  #chunks: Buffer[] = []
  #received = 0
  /** Bytes of the answer in progress; `chunked` until its last chunk was seen. */
  #expected: number | 'chunked' | undefined
  #head = { status: 0, length: 0 }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', (chunk) => this.#read(chunk))
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('the connection was closed')))
    socket.setTimeout(TIMEOUT, () => socket.destroy(new Error(`nothing came for ${TIMEOUT} ms`)))
  }

  /** @param localAddress source address, for example another one of 127.0.0.0/8 */
  static async open(url: string, localAddress = '127.0.0.1'): Promise<KeepAliveClient> {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), localAddress })
    await once(socket, 'connect')
    return new KeepAliveClient(socket)
  }

  /** Sends a request and waits for the whole answer. */
  send(request: Uint8Array): Promise<TimedAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) throw new Error('the connection was closed')
      this.#waiting = { start: performance.now(), resolve, reject }
      this.#socket.write(request)
    })
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(chunk: Buffer): void {
    this.#received += chunk.length
    if (this.#expected === undefined) {
      this.#chunks.push(chunk)
      if (!this.#readHead()) return
    }
    const complete =
      this.#expected === 'chunked' ? chunk.subarray(-5).equals(LAST_CHUNK) : this.#received === this.#expected
    if (!complete) return
    const { status, length } = this.#head
    const waiting = this.#waiting
    const bytes = this.#received - length
    this.#waiting = undefined
    this.#chunks = []
    this.#received = 0
    this.#expected = undefined
    waiting?.resolve({ status, bytes, time: performance.now() - waiting.start })
  }

  #readHead(): boolean {
    const text = Buffer.concat(this.#chunks).toString('latin1')
    const end = text.indexOf('\r\n\r\n')
    if (end === -1) return false
    const head = text.slice(0, end)
    this.#head = { status: Number(head.slice(9, 12)), length: end + 4 }
    const [, length] = /\r\ncontent-length: (\d+)/i.exec(head) ?? []
    this.#expected = /\r\ntransfer-encoding: chunked/i.test(head) ? 'chunked' : end + 4 + Number(length ?? 0)
    return true
  }

  #fail(error: Error): void {
    this.#waiting?.reject(error)
    this.#waiting = undefined
  }
}

/** Milliseconds. */
const TIMEOUT = 60_000
const LAST_CHUNK = Buffer.from('0\r\n\r\n')

/** The bytes of a request without a body, or with one of JSON. */
export function requestBytes(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body = '',
): Buffer {
  const lines = Object.entries({
    host: 'localhost',
    ...(body && { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
}
