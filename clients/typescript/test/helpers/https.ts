import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { connect, type Server } from 'node:net'
import { resolve } from 'node:path'
import type { Test } from 'tap'

const certificates = resolve(import.meta.dirname, '../fixtures/certificates')

/** The certificate of the private CA that signed the servers' certificates. */
export const privateCa = resolve(certificates, 'ca.pem')
/** The self-signed certificate. */
export const selfSigned = resolve(certificates, 'self-signed.pem')

/**
 * Starts an HTTPS server before the HTTP server at `target`, and returns its address.
 *
 * @param certificate file with its certificate and key, for 127.0.0.1
 */
export async function startHttps(t: Test, target: string, certificate: string): Promise<string> {
  const pem = readFileSync(certificate)
  const server = https.createServer({ cert: pem, key: pem }, (request, response) => {
    const { method, url = '', headers } = request
    const forwarded = http.request(target + url, { method, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(response)
    })
    request.pipe(forwarded)
  })
  server.on('tlsClientError', () => {})
  return `https://127.0.0.1:${await listen(t, server)}`
}

/** Starts a proxy, and returns its address and the hosts to which it was asked to connect. */
export async function startProxy(t: Test): Promise<{ url: string; hosts: string[] }> {
  const hosts: string[] = []
  const server = http.createServer((request, response) => {
    // Absolute addresses, which clients send for http:// in place of CONNECT.
    const { host } = new URL(request.url ?? '')
    hosts.push(host)
    const { method, headers } = request
    request.pipe(
      http.request(request.url ?? '', { method, headers, agent: false }, (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers)
        answer.pipe(response)
      }),
    )
  })
  server.on('connect', ({ url = '' }, client) => {
    hosts.push(url)
    const [host = '', port] = url.split(':')
    const upstream = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      client.pipe(upstream).pipe(client)
    })
    for (const socket of [client, upstream]) socket.on('error', () => {})
    t.teardown(() => upstream.destroy())
  })
  return { url: `http://127.0.0.1:${await listen(t, server)}`, hosts }
}

async function listen(t: Test, server: http.Server | https.Server): Promise<number> {
  const listening: Server = server.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = listening.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}
