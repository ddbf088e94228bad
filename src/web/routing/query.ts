import type { FastifyRequest } from 'fastify'

/** Returns the form that a page received. */
export function formOf({ form }: FastifyRequest): URLSearchParams {
  if (!form) throw new Error('only a POST to a page has a form')
  return form
}

/** The parsed query of a page. A parameter that is repeated is an array. */
export type Query<Name extends string> = { [Parameter in Name]?: string | string[] }

/** Returns the value of a parameter, the first one if it is repeated; empty if it is missing. */
export function firstOf(value: string | string[] | undefined): string {
  return [value].flat()[0] ?? ''
}
