/** One fault: texts of the server's source, and what to put in their place. */
export interface Fault {
  edits: readonly (readonly [file: string, from: string, to: string])[]
}

/** Faults that a contract run must catch, by what is wrong. */
export const faults: Readonly<Record<string, Fault>> = {
  'a field is dropped': {
    edits: [
      [
        'generated/operations.ts',
        '"replies": {\n      "201": {\n        "$ref": "Status#"\n      }',
        '"replies": {\n      "201": {}',
      ],
      [
        'src/api/handlers.ts',
        'return respond(201, toStatus(row))',
        'const { target_url, ...rest } = toStatus(row); return respond(201, rest)',
      ],
    ],
  },
  'the order is that of the latest report': {
    edits: [['src/store/statuses.ts', ".orderBy('context')", ".orderBy('id')"]],
  },
  'a replacing report answers 200': {
    edits: [
      [
        'src/api/handlers.ts',
        'respond(201, toStatus(row))',
        'respond(row.created_at <= row.updated_at ? 200 : 201, toStatus(row))',
      ],
    ],
  },
  'one property too many': {
    edits: [
      ['generated/operations.ts', '"201": {\n        "$ref": "Status#"\n      }', '"201": {}'],
      [
        'src/api/handlers.ts',
        'respond(201, toStatus(row))',
        'respond(201, { ...toStatus(row), repository_id: 1 })',
      ],
    ],
  },
  'a limit is off by one: a character': {
    edits: [['generated/schemas.ts', '"maxLength": 1024', '"maxLength": 1025']],
  },
  'a limit is off by one: a byte of the body': {
    edits: [['generated/operations.ts', '"bodyLimit": 16384', '"bodyLimit": 16383']],
  },
  'a limit is off by one: a byte of a field': {
    edits: [['generated/schemas.ts', '"x-max-bytes": 2048', '"x-max-bytes": 2049']],
  },
  'lengths are counted in UTF-16': {
    edits: [['src/api/validator.ts', 'new Ajv2020({', 'new Ajv2020({ unicode: false,']],
  },
  'a wrong type is coerced': {
    edits: [['src/api/validator.ts', 'coerceTypes: false', 'coerceTypes: true']],
  },
  'a header is missing: Vary': {
    edits: [['src/api/api.ts', "reply.header('vary', 'Authorization')", '']],
  },
  'a header is missing: ETag': {
    edits: [['src/api/bind.ts', "reply.header('etag', content.etag)", '']],
  },
  'the combined state is stale': {
    edits: [
      [
        'src/api/handlers.ts',
        'state: combinedState(rows.map(({ state }) => state))',
        'state: cached(rows[0]?.sha, combinedState(rows.map(({ state }) => state)))',
      ],
      [
        'src/api/handlers.ts',
        'function toStatus(',
        'const kept = new Map()\nfunction cached(sha, state) { if (!kept.has(sha)) kept.set(sha, state); return kept.get(sha) }\nfunction toStatus(',
      ],
    ],
  },
  'an error is no JSON': {
    edits: [['src/hooks/error-replies.ts', 'JSON.stringify({ error: error.message })', 'error.message']],
  },
  'private and missing differ: the status': {
    edits: [
      [
        'src/auth/access-policy.ts',
        "throw new ServiceError(anonymous ? 'credential_missing' : 'repository_unknown')",
        "throw new ServiceError(anonymous ? 'credential_missing' : repository ? 'read_only' : 'repository_unknown')",
      ],
    ],
  },
  'private and missing differ: the text': {
    edits: [
      [
        'src/auth/access-policy.ts',
        "throw new ServiceError(anonymous ? 'credential_missing' : 'repository_unknown')",
        "throw new ServiceError(anonymous ? 'credential_missing' : 'repository_unknown', repository ? 'There is no such repository.' : undefined)",
      ],
    ],
  },
  'a reader may write': {
    edits: [
      ['src/auth/access-policy.ts', "repository.permission !== 'write'", 'repository.permission === null'],
    ],
  },
  'a revoked token goes on working': {
    edits: [
      [
        'src/auth/access-policy.ts',
        'const { token, repository } = access',
        'const token = access.token ?? { id: "0", userId: 0, scopes: ["repo"], expiresAt: null, lastUsedAt: null }\n  const { repository } = access',
      ],
    ],
  },
  'a replacing report gets a new id': {
    edits: [
      [
        'src/store/statuses.ts',
        "state: (eb) => eb.ref('excluded.state')",
        "id: (eb) => eb.ref('excluded.id'), state: (eb) => eb.ref('excluded.state')",
      ],
    ],
  },
  'text is trimmed': {
    edits: [
      [
        'src/api/handlers.ts',
        'description: body.description ?? null',
        'description: body.description?.trim() ?? null',
      ],
    ],
  },
  'text is normalised': {
    edits: [['src/api/handlers.ts', 'context: body.context,', 'context: body.context.normalize(),']],
  },
  'an empty description is taken for none': {
    edits: [
      [
        'src/api/handlers.ts',
        'description: body.description ?? null',
        'description: body.description || null',
      ],
    ],
  },
  'a message does not name the field': {
    edits: [['src/api/validator.ts', 'const name = field || ', "const name = '' || "]],
  },
  '503 is 404': {
    edits: [
      [
        'src/hooks/error-replies.ts',
        "return new ServiceError('unavailable', undefined, { cause: error })",
        "return new ServiceError('repository_unknown')",
      ],
    ],
  },
}
