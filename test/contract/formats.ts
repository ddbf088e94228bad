/** The meaning of a `format`, implemented independently of the server. */
type Format = {
  test(value: string): boolean
  /** Invalid values, each for another reason. */
  wrong: readonly string[]
} & (
  | {
      /** Values start with this. */
      prefix: string
      /** Characters that may follow. */
      filling: string
    }
  | { valid: readonly string[] }
)

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export const formats: Readonly<Record<string, Format>> = {
  'date-time': {
    // In this contract: UTC with whole seconds.
    test: (value) => /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/.test(value) && !Number.isNaN(Date.parse(value)),
    valid: ['2026-01-31T23:59:59Z', '2024-02-29T00:00:00Z'],
    wrong: [
      '',
      '2026-01-31',
      '2026-01-31T23:59:59',
      '2026-02-30T00:00:00Z',
      '2026-01-31T25:00:00Z',
      'yesterday',
    ],
  },
  uuid: {
    test: (value) => UUID.test(value),
    valid: ['0192f0c1-7e4b-7d3a-9c1e-3f5a6b7c8d9e', '00000000-0000-4000-8000-000000000000'],
    wrong: ['', 'x', '0192f0c17e4b7d3a9c1e3f5a6b7c8d9e', '0192f0c1-7e4b-7d3a-9c1e-3f5a6b7c8d9g'],
  },
  'http-url': {
    test: (value) =>
      /^https?:\/\//i.test(value) && !/[\p{White_Space}\p{Cc}]/u.test(value) && URL.canParse(value),
    prefix: 'https://ci.example.org/',
    filling: 'abcXYZ019-._~/?#[]@!$&\'()*+,;=%é漢字😀\u0301\u200d"<>\\^`{|}',
    wrong: [
      '',
      'ci.example.org',
      '//ci.example.org/',
      '/jobs/1',
      'http:/ci.example.org',
      'http:ci.example.org',
      'http://',
      'https://:80',
      'http://[::1',
      'ftp://ci.example.org/',
      'javascript:alert(1)',
      'java\tscript:alert(1)',
      'data:text/html,x',
      'file:///etc/passwd',
      ' https://ci.example.org/',
      'https://ci.example.org/ ',
      'https://ci.example.org/a b',
      'https://ci.example.org/\t',
      'https://ci.example.org/\n',
      'https://ci.example.org/\u0000',
      'https://ci.example.org/\u007f',
      'https://ci.example.org/\u0085',
      'https://ci.example.org/\u00a0',
      'https://ci.example.org/\u2028',
      'https://ci.example.org/\u3000',
      'https://ci.example.org:99999/',
    ],
  },
}
