import { readFileSync } from 'node:fs'

interface Parameter {
  name: string
  in: string
  description?: string
  deprecated?: boolean
  example?: string | string[]
}

/** The parts of an operation that make up a sample. */
interface Operation {
  operationId: string
  summary: string
  description?: string
  parameters: (Parameter | { $ref: string })[]
  requestBody?: {
    content: { 'application/json': { schema: { $ref: string }; examples: Record<string, { value: object }> } }
  }
  responses: Record<string, object>
}

interface Schema {
  description?: string
  properties?: Record<string, Schema | { $ref: string }>
}

interface Contract {
  info: { version: string }
  paths: Record<string, Record<string, Operation>>
  components: { parameters: Record<string, Parameter>; schemas: Record<string, Schema> }
}

// `npm run check` compares this file with openapi.yaml, which it has validated.
const contract = JSON.parse(
  readFileSync(new URL('../../../../generated/openapi.json', import.meta.url), 'utf8'),
) as Contract

export const contractVersion = contract.info.version

/** Each operation: what it takes and answers, and its first example as code in several languages. */
export const samples = Object.entries(contract.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => {
    const { operationId, summary, description = '', parameters, requestBody, responses } = operation
    const { parameters: shared, schemas } = contract.components
    const all = parameters.map((each) => ('$ref' in each ? referenced(shared, each.$ref) : each))
    const content = requestBody?.content['application/json']
    const examples = Object.values(content?.examples ?? {})
    const fields = Object.entries(content ? (referenced(schemas, content.schema.$ref).properties ?? {}) : {})
    const sample = { operationId, method: method.toUpperCase(), path, all, body: examples[0]?.value }
    return {
      operationId,
      summary,
      description,
      method: sample.method,
      path,
      parameters: all.map(({ name, in: place, description = '' }) => ({ name, place, description })),
      fields: fields.map(([name, field]) => {
        const { description = '' } = '$ref' in field ? referenced(schemas, field.$ref) : field
        return { name, place: 'body', description }
      }),
      replies: Object.keys(responses),
      deprecated: all.filter(({ deprecated }) => deprecated),
      code: { curl: curl(sample), TypeScript: typescript(sample), Python: python(sample) },
    }
  }),
)

interface Sample {
  operationId: string
  method: string
  path: string
  all: Parameter[]
  body: object | undefined
}

function referenced<Part>(parts: Record<string, Part>, reference: string): Part {
  const part = parts[reference.slice(reference.lastIndexOf('/') + 1)]
  if (!part) throw new Error(`generated/openapi.json has no ${reference}`)
  return part
}

/** Returns the path and query of the examples. @param sha how the language inserts the commit */
function urlOf({ path, all }: Sample, sha: string): string {
  const query = new URLSearchParams(
    all
      .filter((parameter) => parameter.in === 'query')
      .flatMap(({ name, example = [] }) => [example].flat().map((value): [string, string] => [name, value])),
  )
  const filled = path.replace(/\{(\w+)\}/g, (_, key: string) =>
    key === 'sha' ? sha : String(all.find(({ name }) => name === key)?.example),
  )
  return query.size > 0 ? `${filled}?${query}` : filled
}

function curl(sample: Sample): string {
  const { method, body } = sample
  const lines = [
    `curl ${method === 'GET' ? '' : `-X ${method} `}"$BASE_URL${urlOf(sample, '$SHA')}"`,
    `-H "Authorization: Bearer $TOKEN"`,
  ]
  if (body) lines.push(`-H "Content-Type: application/json"`, `-d '${JSON.stringify(body)}'`)
  return lines.join(' \\\n  ')
}

function typescript({ operationId, all, body }: Sample): string {
  const withExample = all.filter((parameter) => parameter.in !== 'header' && parameter.example !== undefined)
  const fields = withExample.map(({ name, example }) =>
    name === 'sha' ? "sha: process.env.SHA ?? ''" : `${name}: ${JSON.stringify(example)}`,
  )
  if (body) fields.push(`body: ${JSON.stringify(body)}`)
  return `// sample.mts, after npm install --no-save $BASE_URL/assets/commit-status-client.tgz
import { createClient } from '@commit-status/client'

const client = createClient({ baseUrl: process.env.BASE_URL ?? '', token: process.env.TOKEN })
const { status, body } = await client.${operationId}({
${fields.map((field) => `  ${field},\n`).join('')}})
console.log(status, JSON.stringify(body))`
}

function python(sample: Sample): string {
  const { method, body } = sample
  const type = body ? ', "Content-Type": "application/json"' : ''
  return `import os, urllib.request

request = urllib.request.Request(
    os.environ["BASE_URL"] + f"${urlOf(sample, "{os.environ['SHA']}")}",
    method="${method}",
    headers={"Authorization": "Bearer " + os.environ["TOKEN"]${type}},
${body ? `    data='${JSON.stringify(body)}'.encode(),\n` : ''})
with urllib.request.urlopen(request) as response:
    print(response.read().decode())`
}
