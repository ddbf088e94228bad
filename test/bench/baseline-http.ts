import { createServer } from 'node:http'

/**
 * Answers with prepared bytes and headers from `node:http` alone: the physical limit of a server on
 * Node.js.
 *
 * argv: JSON of the answers by path
 */
export interface PreparedAnswer {
  status: number
  headers: Record<string, string>
  body: string
}

const answers = new Map<string, PreparedAnswer>(Object.entries(JSON.parse(process.argv[2] ?? '{}')))

const server = createServer((request, response) => {
  const answer = answers.get(request.url ?? '')
  if (answer) response.writeHead(answer.status, answer.headers).end(answer.body)
  else response.writeHead(404).end()
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  process.stdout.write(`Listening on http://127.0.0.1:${port}\n`)
})
process.once('SIGTERM', () => process.exit(0))
