import openapiTypescript, { astToString } from 'openapi-typescript'
import type { Spec } from './spec.ts'

/** Types of paths and components, by openapi-typescript. */
export async function emitSchema({ document }: Spec): Promise<string> {
  // That answers are open says nothing of which fields there are; as an index signature it would allow any name.
  const text = JSON.stringify(document, (key, value: unknown) =>
    key === 'additionalProperties' && value === true ? undefined : value,
  )
  return astToString(await openapiTypescript(text, { defaultNonNullable: false }))
}
