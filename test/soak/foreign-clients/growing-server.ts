import { createServer, type Server } from 'node:http'
import { isObject, type Json } from '../../contract/json.ts'
import { listenLocally } from '../../helpers/free-port.ts'

/**
 * Passes requests on and adds a field to every object of an answer, as a later version of the
 * server may do.
 */
export async function startGrowingServer(target: string): Promise<{ url: string; server: Server }> {
  const grow = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(grow)
    if (!isObject(value)) return value
    return {
      ...Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, grow(inner)])),
      added: { later: true },
    }
  }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const headers = Object.entries(request.headersDistinct).flatMap(([name, values]) =>
      /^(host|connection|content-length|accept-encoding)$/.test(name)
        ? []
        : [[name, String(values)] as const],
    )
    const { method = 'GET', url = '/' } = request
    const body = ['GET', 'HEAD'].includes(method) ? null : Buffer.concat(chunks)
    const answer = await fetch(target + url, { method, headers: Object.fromEntries(headers), body })
    const text = await answer.text()
    const kept = [...answer.headers].filter(
      ([name]) => !/^(content-length|connection|keep-alive|transfer-)/.test(name),
    )
    response.writeHead(answer.status, Object.fromEntries(kept))
    response.end(text === '' ? '' : JSON.stringify(grow(JSON.parse(text))))
  })
  return { url: `http://127.0.0.1:${await listenLocally(server)}`, server }
}
