package algorithms_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// TestKeysKeepTheirNames holds the names of stored records: with other names, every
// client would start with a full budget. Do not change the expected values without Format.
func TestKeysKeepTheirNames(t *testing.T) {
	longest, long := strings.Repeat("k", 256), strings.Repeat("k", 257)
	tests := []struct {
		key     string
		bounded string
		stored  string // the bounded key, without a secret
		direct  string // the key as it is, without a secret
		masked  string // the bounded key, with a secret
	}{
		{
			key:     "key",
			bounded: "key",
			stored:  "key",
			direct:  "key",
			masked:  "#96de09a0f8699191b28587118ac57df8",
		},
		{
			key:     "",
			bounded: "",
			stored:  "",
			direct:  "",
			masked:  "#f9e66e179b6747ae54108f82f8ade8b3",
		},
		{
			key:     longest,
			bounded: longest,
			stored:  longest,
			direct:  longest,
			masked:  "#d022a5642b82afc4c3515985b848d7c5",
		},
		{
			key:     long,
			bounded: "#a5de0e3c93b4322bf1d2e6cc13119219d665142374de7f2b06bae237759c73e2",
			stored:  "#495bfb211256970247644cc36feffea4628631da5f4291121fe830706a89e499",
			direct:  "#a5de0e3c93b4322bf1d2e6cc13119219d665142374de7f2b06bae237759c73e2",
			masked:  "#acf3ac09feae9da9a86e884d04938f4e",
		},
		{
			key:     "#",
			bounded: "#334359b90efed75da5f0ada1d5e6b256f4a6bd0aee7eb39c0f90182a021ffc8b",
			stored:  "#97e06f18269cedaa5e3c00ac5c44b1016ceb25ea0a2cd636985a989d28c5a420",
			direct:  "#334359b90efed75da5f0ada1d5e6b256f4a6bd0aee7eb39c0f90182a021ffc8b",
			masked:  "#0db68258402c1a40a57946460711147c",
		},
	}

	for _, tt := range tests {
		bounded := algorithms.BoundedKey(tt.key)
		if bounded != tt.bounded {
			t.Errorf("BoundedKey(%.10q) is %q, want %q", tt.key, bounded, tt.bounded)
		}
		if got := algorithms.StoredKey(bounded, nil); got != tt.stored {
			t.Errorf("StoredKey of the bounded %.10q is %q, want %q", tt.key, got, tt.stored)
		}
		if got := algorithms.StoredKey(tt.key, nil); got != tt.direct {
			t.Errorf("StoredKey(%.10q) is %q, want %q", tt.key, got, tt.direct)
		}
		if got := algorithms.StoredKey(bounded, []byte("secret")); got != tt.masked {
			t.Errorf("StoredKey of the bounded %.10q with a secret is %q, want %q", tt.key, got, tt.masked)
		}
	}
}
