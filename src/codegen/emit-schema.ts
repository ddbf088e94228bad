import openapiTypescript, { astToString } from 'openapi-typescript'
import type { Spec } from './spec.ts'

/** Emits the types of paths and components with openapi-typescript. */
export async function emitSchema({ document }: Spec): Promise<string> {
  // openapi-typescript turns it into an index signature, which would allow misspelled field names.
  const text = JSON.stringify(document, (key, value: unknown) =>
    key === 'additionalProperties' && value === true ? undefined : value,
  )
  return astToString(await openapiTypescript(text, { defaultNonNullable: false }))
}
