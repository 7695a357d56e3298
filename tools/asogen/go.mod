module insula.dev/tools/asogen

go 1.26.0

require (
	github.com/Azure/azure-service-operator/v2 v2.20.0
	gopkg.in/yaml.v3 v3.0.1
)
